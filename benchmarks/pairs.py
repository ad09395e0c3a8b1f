"""An update of the pair classifier, softmax and CoDA, and of the same model in stock Keras.

    python -m benchmarks.pairs --output benchmarks/results/pairs.json

The pairs are as long as SNLI's: premises of about 15 words and hypotheses of about 8, padded to the
longest of their batch. All models train on the same batches and take turns, so that other load on
the machine affects all of them: trust the ratios.
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from benchmarks.measure import interleaved_medians, machine, write_json
from keras_quasiattn.models import PairClassifier

Batch = tuple[dict[str, tf.Tensor], tf.Tensor]

CLASSES = 3
DROPOUT = 0.2


def plain(vocabulary: int, width: int, units: int) -> keras.Model:
    """Decomposable attention in stock layers, with masks in the softmax and in the sums."""
    layers = keras.layers
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in ("first", "second")}
    masks = [keras.ops.not_equal(ids, 0) for ids in inputs.values()]
    embedding = layers.Embedding(vocabulary, width, trainable=False)
    projection = layers.Dense(units, use_bias=False)
    a, b = (projection(embedding(ids)) for ids in inputs.values())  # (B, T, U), (B, S, U)

    def network() -> keras.Sequential:
        block = [
            [layers.Dropout(DROPOUT), layers.Dense(units, activation="relu")] for _ in range(2)
        ]
        return keras.Sequential([*block[0], *block[1]])

    attend, compare, aggregate = network(), network(), network()
    fa, fb = attend(a), attend(b)
    # (B, T, S), (B, S, T); a mask is (B, S) or (B, T)
    rows, columns = layers.Dot(axes=2)([fa, fb]), layers.Dot(axes=2)([fb, fa])
    to_b = layers.Softmax()(rows, mask=masks[1][:, None, :])
    to_a = layers.Softmax()(columns, mask=masks[0][:, None, :])
    sums = []
    for x, weights, other, mask in ((a, to_b, b, masks[0]), (b, to_a, a, masks[1])):
        aligned = layers.Dot(axes=(2, 1))([weights, other])  # (B, T or S, U)
        compared = compare(layers.Concatenate()([x, aligned]))
        # (B, U): the sum over real tokens
        sums.append(
            keras.ops.sum(compared * keras.ops.cast(mask, compared.dtype)[..., None], axis=1)
        )
    return keras.Model(inputs, layers.Dense(CLASSES)(aggregate(layers.Concatenate()(sums))))


def batches(count: int, size: int, vocabulary: int) -> list[Batch]:
    """Random labelled pairs with the lengths of SNLI's."""
    random = np.random.default_rng(0)

    def texts(mean: float, deviation: float) -> tf.Tensor:
        lengths = random.normal(mean, deviation, size).round().clip(2, 30)
        positions = np.arange(int(lengths.max()))
        ids = random.integers(1, vocabulary, (size, len(positions)))
        # (size, longest), 0 is padding
        return tf.constant(np.where(positions < lengths[:, None], ids, 0), tf.int32)

    return [
        (
            {"first": texts(15, 6), "second": texts(8, 3)},
            tf.constant(random.integers(0, CLASSES, size)),
        )
        for _ in range(count)
    ]


def steps(model: keras.Model, data: list[Batch]) -> Callable[[], Any]:
    """Return one update per batch, in a graph for unknown batch size and lengths."""
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer = keras.optimizers.Adagrad(0.05)
    optimizer.build(model.trainable_variables)
    ids = {name: tf.TensorSpec((None, None), tf.int32) for name in ("first", "second")}

    @tf.function(input_signature=[ids, tf.TensorSpec((None,), tf.int64)])
    def step(inputs: dict[str, tf.Tensor], labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            value = loss(labels, model(inputs, training=True))
        variables = [variable.value for variable in model.trainable_variables]
        optimizer.apply(tape.gradient(value, variables), model.trainable_variables)
        return value

    return lambda: [step(*batch).numpy() for batch in data]


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return milliseconds per update of all three models, and both ratios with their goals."""
    sizes = {
        "embedding_dim": arguments.width,
        "projection_dim": arguments.units,
        "units": arguments.units,
    }
    options = {**sizes, "dropout": DROPOUT, "train_embedding": False}
    models = {
        "plain": plain(arguments.vocabulary, arguments.width, arguments.units),
        "softmax": PairClassifier(arguments.vocabulary, CLASSES, **options),
        "coda": PairClassifier(arguments.vocabulary, CLASSES, attention="coda", **options),
    }
    data = batches(arguments.batches, arguments.batch, arguments.vocabulary)
    cases = {name: steps(model, data) for name, model in models.items()}
    times = {
        name: milliseconds / len(data)
        for name, milliseconds in interleaved_medians(cases, arguments.repeats).items()
    }
    return {
        "parameters": {name: _trained(model) for name, model in models.items()},
        "mean_lengths": {
            name: float(np.mean([np.count_nonzero(ids[name], axis=1).mean() for ids, _ in data]))
            for name in ("first", "second")
        },
        "step_ms": times,
        "softmax_of_plain": {"ratio": times["softmax"] / times["plain"], "goal": 1.3},
        "coda_of_softmax": {"ratio": times["coda"] / times["softmax"], "goal": 1.5},
    }


def _trained(model: keras.Model) -> int:
    return sum(int(np.prod(variable.shape)) for variable in model.trainable_variables)


def main() -> None:
    """Parse the arguments, measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument(
        "--batches", type=int, default=8, help="of different lengths, in every repeat"
    )
    parser.add_argument("--vocabulary", type=int, default=20_000)
    parser.add_argument("--width", type=int, default=300, help="of the frozen word vectors")
    parser.add_argument("--units", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=40)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    record = {
        "command": " ".join(["python -m benchmarks.pairs", *sys.argv[1:]]),
        "machine": machine(),
        **measure(arguments),
    }
    for name, milliseconds in record["step_ms"].items():
        print(
            f"{name:8s} {milliseconds:7.2f} ms a step, "
            f"{record['parameters'][name]:,} parameters trained"
        )
    for name in ("softmax_of_plain", "coda_of_softmax"):
        print(f"{name.replace('_', ' ')}: {record[name]['ratio']:.2f}, goal {record[name]['goal']}")
    if arguments.output:
        write_json(record, arguments.output)


if __name__ == "__main__":
    main()
