"""When does a model of arithmetic learn which kind of question? Your own callback in a run.

    python examples/learning_by_kind.py
    python examples/learning_by_kind.py --models coda --seed 1

Trains models on the sums and differences of `small_arithmetic.py` and measures the validation
questions of each kind every 250 updates. A kind is an operator and one variable or two, such as
x - y. Prints the first update from which on at least half and nine tenths of a kind are right.
"""

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np
import small_arithmetic

from keras_quasiattn.lab.text import ByteTokenizer
from keras_quasiattn.lab.training import train

SHARES = (0.5, 0.9)


class RightByKind(keras.callbacks.Callback):
    """Measure the validation questions of each kind at the end of each Keras epoch.

    Args:
        task: a task `mlu`, prepared.

    Attributes:
        curves: by kind, pairs of the update and the share of right answers.
    """

    def __init__(self, task: Any) -> None:
        super().__init__()
        self.settings = task.training_settings
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
            right.append(((ids == np.asarray(y)) | (np.asarray(y) == 0)).all(-1))  # 0 is padding
        step = min((epoch + 1) * self.settings.checkpoint_every, self.settings.steps)
        for kind, curve in self.curves.items():
            share = np.concatenate(right)[self.kinds == kind].mean()
            curve.append((step, round(float(share), 4)))


def learned(curve: Sequence[tuple[int, float]], share: float) -> int | None:
    """Return the first update from which on at least this share is right; None if it never is."""
    reached = None
    for step, right in curve:
        reached = (reached or step) if right >= share else None
    return reached


def main() -> None:
    """Read the arguments, train and print a line for each model and kind."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="+", default=["softmax", "coda"])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--every", type=int, default=250, help="updates from one look to the next")
    parser.add_argument("--steps", type=int, default=4000, help="all updates")
    arguments = parser.parse_args()
    lengths = {"checkpoint_every": arguments.every, "steps": arguments.steps}
    print("| model | kind | half right from update | nine tenths from | right at the end |")
    print("|---|---|---|---|---|")
    for model in arguments.models:
        task = small_arithmetic.make(model, arguments.seed, label_smoothing=0.1, **lengths)
        task.prepare()
        callback = RightByKind(task)
        with tempfile.TemporaryDirectory() as folder:
            train(task, folder, callbacks=[callback])
        for kind, curve in callback.curves.items():
            steps = (str(learned(curve, share) or "never") for share in SHARES)
            print(f"| {model} | {kind} |", " | ".join([*steps, f"{curve[-1][1]:.3f}"]), "|")


if __name__ == "__main__":
    main()
