"""What `lab.training.AttentionSummaries` costs: epochs of `fit` with and without it.

    python -m benchmarks.summaries --output benchmarks/results/summaries.json

Within one `fit`, the callback runs at the end of every other epoch, so that other load on the
machine affects both kinds: trust the ratio. Tracing the callback's graph, once before training, is
not part of the ratio but reported as "first".
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from benchmarks.measure import machine, write_json
from keras_quasiattn.lab.training import AttentionSummaries
from keras_quasiattn.models import PairClassifier, TextClassifier, TransformerClassifier

GOAL = 0.03
CLASSES = 3


def models(arguments: argparse.Namespace) -> dict[str, keras.Model]:
    """One model of each kind: CoDA between two texts, CoDA in a Transformer's heads, and gates."""
    common = {"vocabulary_size": arguments.vocabulary, "num_classes": CLASSES}
    width = arguments.width
    return {
        "pairs": PairClassifier(
            **common,
            embedding_dim=width,
            units=width,
            attention="coda",
            attention_options={"alpha": "learned", "beta": "learned"},
        ),
        "transformer": TransformerClassifier(
            **common, num_layers=2, hidden_dim=width, intermediate_dim=2 * width, num_heads=4
        ),
        "gated": TextClassifier(**common, embedding_dim=width, units=width // 2),
    }


def batches(model: keras.Model, arguments: argparse.Namespace) -> tf.data.Dataset:
    """Return the same batch of random ids and labels, repeated forever."""
    random = np.random.default_rng(0)
    ids = {
        name: random.integers(1, arguments.vocabulary, (arguments.batch, arguments.length)).astype(
            "int32"
        )
        for name in ("first", "second")
    }
    labels = random.integers(0, CLASSES, arguments.batch)
    inputs = ids if isinstance(model, PairClassifier) else ids["first"]
    return tf.data.Dataset.from_tensors((inputs, labels)).repeat()


class EveryOther(keras.callbacks.Callback):
    """Time the epochs of one `fit`; those with an odd index include the callback."""

    def __init__(self, callback: keras.callbacks.Callback) -> None:
        super().__init__()
        self.callback = callback
        self.milliseconds: list[float] = []

    def on_train_begin(self, logs: Any = None) -> None:
        """Give the model to the callback and time its first measurement."""
        self.callback.set_model(self.model)
        begun = time.perf_counter()
        self.callback.on_train_begin(logs)
        self.first = 1e3 * (time.perf_counter() - begun)

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Start the timer."""
        self._begun = time.perf_counter()

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Let the callback count the updates."""
        self.callback.on_train_batch_begin(batch, logs)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Run the callback in odd epochs, then stop the timer."""
        if epoch % 2:
            self.callback.on_epoch_end(epoch, logs)
        self.milliseconds.append(1e3 * (time.perf_counter() - self._begun))

    def on_train_end(self, logs: Any = None) -> None:
        """Let the callback close its file."""
        self.callback.on_train_end(logs)


def cost(model: keras.Model, arguments: argparse.Namespace, folder: Path) -> dict[str, float]:
    """Median milliseconds of epochs with and without the callback, and the share that it adds."""
    data = batches(model, arguments)
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    inputs = keras.tree.map_structure(lambda x: x[: arguments.looked_at], next(iter(data))[0])
    timed = EveryOther(AttentionSummaries(folder, inputs, steps_per_epoch=arguments.steps))
    # Two more epochs, which are not counted: the first traces the step.
    epochs = 2 * (arguments.repeats + 1)
    model.fit(
        data,
        steps_per_epoch=arguments.steps,
        epochs=epochs,
        verbose=0,
        callbacks=[timed],
        shuffle=False,
    )
    without, watched = timed.milliseconds[2::2], timed.milliseconds[3::2]
    return {
        "epoch_ms_without": float(np.median(without)),
        "epoch_ms_with": float(np.median(watched)),
        "share_of_step_time": float(np.median(watched) / np.median(without) - 1),
        "first_ms": timed.first,
    }


def main() -> None:
    """Parse the arguments, measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--length", type=int, default=30)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--vocabulary", type=int, default=5000)
    parser.add_argument(
        "--steps", type=int, default=75, help="in an epoch: the least of the presets"
    )
    parser.add_argument(
        "--looked-at", type=int, default=32, help="examples that the callback measures"
    )
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    record: dict[str, Any] = {
        "command": " ".join(["python -m benchmarks.summaries", *sys.argv[1:]]),
        "machine": machine(),
        "steps_per_epoch": arguments.steps,
        "goal": GOAL,
        "models": {},
    }
    for name, model in models(arguments).items():
        with tempfile.TemporaryDirectory() as folder:
            record["models"][name] = cost(model, arguments, Path(folder))
    print("model        epoch ms  with callback  share  first ms")
    for name, row in record["models"].items():
        print(
            f"{name:11}  {row['epoch_ms_without']:8.1f}  {row['epoch_ms_with']:13.1f}  "
            f"{row['share_of_step_time']:5.1%}  {row['first_ms']:8.0f}"
        )
    if arguments.output:
        write_json(record, arguments.output)


if __name__ == "__main__":
    main()
