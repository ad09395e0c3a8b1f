"""What attention and conflict look at in the same pair: a match and a contrast.

    python examples/conflict.py

The task is made up: each text names an animal among fillers, and the label is 1 if both texts name
the same animal. The script trains a `models.SiameseClassifier` with each interaction of the paper's
table 1. Then it shows the weights of the last model for one pair.
"""

import argparse

import keras
import numpy as np

from keras_quasiattn.attention.probe import probe
from keras_quasiattn.models import SiameseClassifier

ANIMALS, VOCABULARY, LENGTH = 6, 15, 6


def pairs(count: int, seed: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Random pairs: {"first": ids, "second": ids}, both (count, LENGTH), and labels (count,).

    The animals are the ids 1 … ANIMALS. The label is 1 if both texts have the same animal.
    """
    draw = np.random.default_rng(seed)
    same = draw.random(count) < 0.5
    first = draw.integers(0, ANIMALS, count)
    second = np.where(same, first, (first + draw.integers(1, ANIMALS, count)) % ANIMALS)
    ids = draw.integers(ANIMALS + 1, VOCABULARY, (2, count, LENGTH))
    for side, animals in zip(ids, (first, second), strict=True):
        side[np.arange(count), draw.integers(0, LENGTH, count)] = animals + 1
    return {"first": ids[0], "second": ids[1]}, same


def main() -> None:
    """Train a model with each interaction, then show the weights of the last."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--examples", type=int, default=2000)
    parser.add_argument("--epochs", type=int, default=6)
    arguments = parser.parse_args()
    for interaction in ("none", "attention", "conflict", "both"):
        keras.utils.set_random_seed(0)
        model = SiameseClassifier(
            VOCABULARY,
            2,
            interaction=interaction,
            embedding_dim=16,
            units=16,
            num_recurrent_layers=1,
            num_dense_layers=1,
            dropout=0.0,
        )
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.Adam(1e-2), loss, metrics=["accuracy"])
        model.fit(
            *pairs(arguments.examples, seed=0), epochs=arguments.epochs, batch_size=32, verbose=0
        )
        _, accuracy = model.evaluate(*pairs(500, seed=1), verbose=0)
        print(f"{interaction}: {accuracy:.3f} of 500 new pairs right")
    pair, _ = pairs(1, seed=3)
    print("first ", *pair["first"][0], "\nsecond", *pair["second"][0])
    for seen in probe(model, pair)[1]:
        for name, recorded in seen.matrices.items():
            # (LENGTH, LENGTH): the pair is a batch of one
            rows = keras.ops.convert_to_numpy(recorded.values).reshape(-1, LENGTH, LENGTH)[0]
            print(
                f"{seen.kind} {name}, call {seen.call}: each row's first choice", *rows.argmax(-1)
            )


if __name__ == "__main__":
    main()
