r"""Which kind of question does a model of arithmetic learn when? A callback of one's own in a run.

    python examples/learning_by_kind.py
    python examples/learning_by_kind.py --seeds 3 --record results/kinds.jsonl

Trains the models softmax and CoDA on sums and differences of numbers in [0, 100), with the settings
that validation data chose for both where gradients are not clipped (the table `grid` of
`mlu_tables.py`), and measures the validation questions of each kind every 250 updates. A kind is an
operator and one variable or two, such as x - y. Prints the first update at which at least half and
nine tenths of a kind are right. What the file of `--record` has is printed and not trained again.
Data are made in the folder that QUASIATTN_DATA_DIR names (default `data`).
"""

import argparse
import itertools
import os
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
from mlu_tables import SMALL
from tables import Record, Row, by_key, read_records

from keras_quasiattn import tasks
from keras_quasiattn.text import ByteTokenizer
from keras_quasiattn.training import append_result, result_row, train

MODELS = ("softmax", "coda")
SETTINGS = {"training.learning_rate": "0.005", "training.label_smoothing": "0.1"}
SHARES = (0.5, 0.9)


class RightByKind(keras.callbacks.Callback):
    """Measures the validation questions of each kind at the end of each Keras epoch.

    Args:
        task: a task `mlu`, prepared.
        every: updates in an epoch.

    Attributes:
        curves: by kind, pairs of the update and the share of right answers.
    """

    def __init__(self, task: Any, every: int) -> None:
        super().__init__()
        self.every = every
        self.batches = list(task.validation_data())
        texts = (ByteTokenizer().detokenize(x["source"]).numpy() for x, *_ in self.batches)
        self.kinds = np.array([task.grammar.parse(text).kind for text in np.concatenate([*texts])])
        self.curves: dict[str, list[tuple[int, float]]] = {
            str(kind): [] for kind in sorted({*self.kinds})
        }

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Predict each character from the true ones before it: an answer is right as a whole."""
        right = []
        for x, y, _ in self.batches:
            ids = self.model.predict_on_batch(x).argmax(-1)  # (B, T)
            right.append(((ids == y) | (y == 0)).numpy().all(-1))  # 0 is padding
        for kind, curve in self.curves.items():
            share = np.concatenate(right)[self.kinds == kind].mean()
            curve.append(((epoch + 1) * self.every, round(float(share), 4)))


def learned(curve: Sequence[tuple[int, float]], share: float) -> int | None:
    """The first update from which on at least this share is right; None if it never is."""
    reached = None
    for step, right in curve:
        reached = (reached or step) if right >= share else None
    return reached


def measure(row: Row, seed: int, every: int) -> Record:
    """Train one model and return its record."""
    task = tasks.get("mlu")(
        preset=row.preset,
        model=row.model,
        seed=seed,
        data_dir=os.environ.get("QUASIATTN_DATA_DIR", "data"),
        overrides=row.settings,
    )
    task.prepare()
    callback = RightByKind(task, every)
    with tempfile.TemporaryDirectory() as folder:
        command = ["python", "examples/learning_by_kind.py", *sys.argv[1:]]
        run = train(task, folder, callbacks=[callback], command=command)
        return result_row(run, row.split, {"right_by_kind": callback.curves})


def show(model: str, records: Sequence[Record]) -> None:
    """Print a line a kind, with one figure a seed."""
    for kind in ("x+x", "x-x", "x+y", "x-y"):
        curves = [record["right_by_kind"][kind] for record in records]
        steps = (", ".join(str(learned(c, share) or "never") for c in curves) for share in SHARES)
        last = statistics.mean(curve[-1][1] for curve in curves)
        print(f"| {model} | {kind} |", " | ".join([*steps, f"{last:.3f}"]), "|")


def main() -> None:
    """Read the arguments, train what is missing and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=1, help="seeds 0 to this, without it")
    parser.add_argument("--every", type=int, default=250, help="updates from one look to the next")
    parser.add_argument("--steps", type=int, default=4000, help="all updates, as in the table")
    parser.add_argument("--record", type=Path, help="a file of JSON lines that keeps the figures")
    arguments = parser.parse_args()
    if arguments.seeds < 1:
        parser.error(f"--seeds is {arguments.seeds}: it must be at least 1")
    lengths = {"training.checkpoint_every": arguments.every, "training.steps": arguments.steps}
    settings = {**SMALL, **SETTINGS, **{name: str(value) for name, value in lengths.items()}}
    known = by_key(read_records(arguments.record) if arguments.record else [])
    rows = [Row("kinds", "demo", model, settings, "", "validation") for model in MODELS]
    found = {row.model: dict(known.get(row.key("mlu"), {})) for row in rows}
    for seed, row in itertools.product(range(arguments.seeds), rows):
        if seed not in found[row.model]:
            found[row.model][seed] = measure(row, seed, arguments.every)
            if arguments.record:
                append_result(arguments.record, found[row.model][seed])
    print("| model | kind | half right from update | nine tenths from | right at the end |")
    print("|---|---|---|---|---|")
    for model, by_seed in found.items():
        show(model, [by_seed[seed] for seed in range(arguments.seeds)])


if __name__ == "__main__":
    main()
