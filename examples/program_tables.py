"""CoDA's table 7, AlgoLisp: runs what is missing and prints it.

    python examples/program_tables.py train --datasets generated --seeds 3
    python examples/program_tables.py show

The problems here are generated, so the paper's figures are for different ones. The table `grid` has
learning rates and label smoothing for both models, by validation data, and `best` has both models
with what that chose. A run is one `quasiattn train` and one `quasiattn evaluate --record`, so a row
of the results file holds the command that made it. Runs that are already in that file are skipped,
and an interrupted run resumes where it stopped. Data are read from the folder that
QUASIATTN_DATA_DIR names (default `data`).
"""

from collections.abc import Iterator

from tables import Row, Tables, grid

# The share of exact programs.
TABLE_7 = {"transformer": ".968", "transformer_coda": ".977"}
# A quarter of an hour on one core: half the preset's updates, with half as many tokens in each.
BUDGET = {
    "training.steps": "2000",
    "training.batch_size": "2048",
    "training.warmup_steps": "500",
    "training.checkpoint_every": "250",
}
GRID = {
    "training.learning_rate": ("0.002", "0.005"),
    "training.label_smoothing": ("0.0", "0.1"),
}
# By the one seed of `grid`; where exact programs are the same, by those that pass.
BEST = {
    "transformer": {"training.learning_rate": "0.005", "training.label_smoothing": "0.1"},
    "transformer_coda": {"training.learning_rate": "0.005", "training.label_smoothing": "0.1"},
}


def rows() -> Iterator[Row]:
    """Every row of every table."""
    for dataset in ("generated", "paper"):
        for model, paper in TABLE_7.items():
            yield Row("7", dataset, model, BUDGET if dataset == "generated" else {}, paper)
    yield from grid("generated", TABLE_7, BUDGET, GRID)
    for model, settings in BEST.items():
        yield Row("best", "generated", model, {**BUDGET, **settings}, "")


if __name__ == "__main__":
    figures = {"exact": ("sequence_accuracy", 1.0), "passing": ("program_accuracy", 1.0)}
    Tables("programs", list(rows()), figures).main(__doc__)
