r"""CoDA's table 6, arithmetic: runs what is missing and prints it.

    python examples/mlu_tables.py train --tables two-cores --seeds 1
    python examples/mlu_tables.py show
    python examples/loss_curves.py runs/tables/paper-*-20000-* --figure val_sequence_accuracy \
        --output curves.png

The paper's table is after 100,000 updates. The table `two-cores` is smaller, for two cores: a fifth
of the updates and 32 questions per batch instead of 160, which is 4% of the questions, with the
same shares of warm-up and of averaged updates, half the width, and no dropout, because no question
comes twice. The table `demo` is README's first command, and `best` has both models at their best on
a smaller task. All are measured on the first 10,000 test questions. By validation data, `rates` has
another rate for the demo; on the smaller task, `grid` has learning rates, label smoothing and
gradient clipping for both models, which `best` is chosen from, and `variants` has options of CoDA.

A run is one `quasiattn train` and one `quasiattn evaluate --record`, so a row of the results file
holds the command that made it. Runs that are already in that file are skipped, and an interrupted
run resumes where it stopped. Data are read from the folder that QUASIATTN_DATA_DIR names (default
`data`).
"""

import itertools
from collections.abc import Iterator

from tables import Row, Tables, grid

# The share of correct answers.
TABLE_6 = {"softmax": ".761", "universal": ".788", "coda": ".843"}
TWO_CORES = {
    "model.hidden_dim": "64",
    "model.intermediate_dim": "256",
    "model.dropout": "0.0",
    "training.batch_size": "32",
    "training.steps": "20000",
    "training.warmup_steps": "1600",
    "training.checkpoint_every": "800",
    "training.average_checkpoints": "2",
    "training.jit_compile": "true",
}
# A smaller task still: 4,000 updates of 64 sums and differences of numbers in [0, 100).
SMALL = {
    "data.low": "0",
    "model.hidden_dim": "32",
    "model.intermediate_dim": "128",
    "model.num_heads": "2",
    "model.num_layers": "2",
    "training.batch_size": "64",
    "training.steps": "4000",
}
GRID = {
    "training.learning_rate": ("0.002", "0.005"),
    "training.label_smoothing": ("0.0", "0.1"),
    "training.clip_norm": ("none", "1.0"),
}
# By the mean over the seeds of `grid`.
BEST = {
    "softmax": {
        "training.learning_rate": "0.005",
        "training.label_smoothing": "0.1",
        "training.clip_norm": "none",
    },
    "coda": {
        "training.learning_rate": "0.005",
        "training.label_smoothing": "0.0",
        "training.clip_norm": "1.0",
    },
}
# What might make CoDA learn more there than with the same rate in `grid`, by validation data; the
# last two are 1/√H and the gate as printed.
VARIANTS = (
    {"model.coda_beta": "0.25"},
    {"model.coda_learned": "true"},
    {"model.coda_learned": "true", "training.clip_norm": "1.0"},
    {"model.coda_scaling": "paper"},
    {"model.coda_gate_range": "raw"},
)


def rows() -> Iterator[Row]:
    """Every row of the tables."""
    for model in ("softmax", "coda"):
        yield Row("demo", "demo", model, {}, "")
    for model, settings in itertools.product(
        ("softmax", "coda"), ({}, {"training.learning_rate": "0.002"})
    ):
        yield Row("rates", "demo", model, settings, "", "validation")
    for model, paper in TABLE_6.items():
        yield Row("6", "paper", model, {}, paper)
    for model in TABLE_6:
        yield Row("two-cores", "paper", model, TWO_CORES, "")
    yield from grid("demo", BEST, SMALL, GRID)
    for model, settings in BEST.items():
        yield Row("best", "demo", model, {**SMALL, **settings}, "")
    for variant in VARIANTS:
        yield Row("variants", "demo", "coda", {**SMALL, **variant}, "", "validation")


if __name__ == "__main__":
    Tables("mlu", list(rows()), {"right answers": ("sequence_accuracy", 1.0)}, 10_000).main(__doc__)
