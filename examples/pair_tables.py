"""Conflict's table 1, and decomposable attention on SNLI: runs what is missing and prints them.

    python examples/pair_tables.py train --tables conflict1 --seeds 5 --vectors glove.6B.100d.txt
    python examples/pair_tables.py show

A run is one `quasiattn train` and one `quasiattn evaluate --record`, so a row of the results file
holds the command that made it. Runs that are already in that file are skipped, and an interrupted
run resumes where it stopped. Data are read from the folder that QUASIATTN_DATA_DIR names (default
`data`).
"""

from collections.abc import Iterator

from tables import Row, Tables

# Accuracy and cross-entropy; the paper has 20 times as much data and uses ELMo embeddings.
CONFLICT_1 = {"none": "", "attention": ".805 .34", "conflict": ".800 .32", "both": ".845 .285"}
# Accuracy with the whole training split: Parikh et al. for the first two, then CoDA's table 3.
_DROPOUT = {"model.attention_dropout": "0.2"}  # in F
_BOUND = {**_DROPOUT, "model.objective": "elbo"}
SNLI = {
    "decomposable": ({}, ".863"),
    "decomposable dropout": (_DROPOUT, ".863"),
    "decomposable intra": ({**_DROPOUT, "model.intra_attention": "true"}, ".868"),
    "decomposable_coda": ({}, ".8571"),
    "mixture": (_DROPOUT, ""),
    "mixture bound": (_BOUND, ""),
    "mixture drawn": ({**_BOUND, "model.estimator": "reinforce"}, ""),
}


def rows() -> Iterator[Row]:
    """Every row of every table."""
    for interaction, paper in CONFLICT_1.items():
        yield Row("conflict1", "quora_part", f"siamese_{interaction}", {}, paper)
    for difference in ("absolute", "signed", "squared"):
        for interaction in ("conflict", "both"):
            settings = {"model.difference": difference}
            yield Row(
                "difference", "quora_part", f"siamese_{interaction}", settings, "", "validation"
            )
    for name, (settings, paper) in SNLI.items():
        yield Row("snli", "snli_part", name.split()[0], settings, paper)


if __name__ == "__main__":
    figures = {"accuracy": ("accuracy", 1.0), "cross-entropy": ("cross_entropy", 1.0)}
    Tables("pairs", list(rows()), figures).main(__doc__)
