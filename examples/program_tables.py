"""CoDA's table 7, AlgoLisp: runs what is missing and prints it.

    python examples/program_tables.py train --datasets generated --seeds 3
    python examples/program_tables.py show

The problems are made by rule, so the paper's figures are of others. Every run is a `quasiattn train` and a `quasiattn
evaluate --record`, so a row of the results file holds the command that made it. What the file has already is left out,
and an interrupted run goes on where it stopped. The data lie in the folder that QUASIATTN_DATA_DIR names (default
`data`).
"""

from collections.abc import Iterator

from tables import Row, Tables

# The share of exact programs.
TABLE_7 = {"transformer": ".968", "transformer_coda": ".977"}
# What one core does in a quarter of an hour: half of the preset's updates, of half as many tokens.
BUDGET = {
    "training.steps": "2000",
    "training.batch_size": "2048",
    "training.warmup_steps": "500",
    "training.checkpoint_every": "250",
}


def rows() -> Iterator[Row]:
    """Every row of the table."""
    for dataset in ("generated", "paper"):
        for model, paper in TABLE_7.items():
            yield Row("7", dataset, model, BUDGET if dataset == "generated" else {}, paper)


if __name__ == "__main__":
    figures = {"exact": ("sequence_accuracy", 1.0), "passing": ("program_accuracy", 1.0)}
    Tables("programs", list(rows()), figures, ()).main(__doc__)
