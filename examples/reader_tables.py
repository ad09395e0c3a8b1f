"""Readers on SQuAD instead of CoDA's table 1: runs what is missing and prints it.

    python examples/reader_tables.py train --seeds 3 --vectors glove.6B.100d.txt
    python examples/reader_tables.py show --seeds 3

The paper's table is on Quasar-T and SearchQA (exact match and F1); its figures are shown with the
rows of those presets. The table `retrieved` is a stand-in for it, on the files that
`retrieved_paragraphs.py --folder data/retrieved` writes. A run is one `quasiattn train` and one
`quasiattn evaluate --record`, so a row of the results file holds the command that made it. Runs
that are already in that file are skipped, and an interrupted run resumes where it stopped. Data are
read from the folder that QUASIATTN_DATA_DIR names (default `data`).
"""

from collections.abc import Iterator

from tables import Row, Tables

from keras_quasiattn.tasks.held_out import SPLITS
from keras_quasiattn.tasks.read_presets import MODELS

# Exact match and F1.
PAPER = {
    "decaprop": {"quasar_t": ".386 .469", "search_qa": ".568 .636"},
    "decaprop_coda": {"quasar_t": ".413 .497", "search_qa": ".572 .639"},
}
# The data and the budget of `squad_part`.
RETRIEVED = {
    **{f"data.{split}": f"data/retrieved/{split}.jsonl" for split in SPLITS},
    "data.train_length": "150",
    "data.length_multiple": "10",
    "data.min_count": "2",
    "model.units": "32",
    "training.steps": "1500",
    "training.checkpoint_every": "250",
}


def rows() -> Iterator[Row]:
    """Every row of every table."""
    for model in MODELS:
        yield Row("squad", "squad_part", model, {}, "")
        layers = {} if model == "attention_flow" else {"model.num_layers": "2"}
        yield Row("retrieved", "own", model, {**RETRIEVED, **layers}, "")
    # Softmax attention's first rows; the others have no dropout before what attention compares.
    yield Row("squad", "squad_part", "decaprop", {"model.attention_dropout": "0.2"}, "")
    for model, by_dataset in PAPER.items():
        for dataset, paper in by_dataset.items():
            yield Row("1", dataset, model, {}, paper)


if __name__ == "__main__":
    figures = {
        "exact match": ("exact_match", 1.0),
        "F1": ("f1", 1.0),
        "million weights": ("parameters", 1e6),
        "hours": ("seconds", 3600.0),
    }
    Tables("read", list(rows()), figures).main(__doc__)
