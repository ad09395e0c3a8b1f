"""What attention and conflict look at in the same pair: a match, and a contrast.

    python examples/conflict.py

The task is made up: two lists of words are the same, or one word has become a stranger.
`models.SiameseClassifier` is trained with each interaction of the paper's table 1; then the weights of
conflict are shown for a pair.
"""

import argparse

import keras
import numpy as np

from keras_quasiattn.layers.probe import probe
from keras_quasiattn.models import SiameseClassifier

VOCABULARY, LENGTH = 30, 6


def pairs(count: int, seed: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """{"first": ids, "second": ids}, both (count, LENGTH), and 1 where they are the same."""
    draw = np.random.default_rng(seed)
    first = draw.integers(1, VOCABULARY, (count, LENGTH))
    second, same = first.copy(), draw.random(count) < 0.5
    changed = np.flatnonzero(~same)
    place = draw.integers(0, LENGTH, changed.size)
    second[changed, place] = (second[changed, place] + draw.integers(0, VOCABULARY - 2, changed.size)) % (
        VOCABULARY - 1
    ) + 1
    return {"first": first, "second": second}, same


def main() -> None:
    """Train every interaction, then look inside the last."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--examples", type=int, default=3000)
    parser.add_argument("--epochs", type=int, default=4)
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
        model.compile(keras.optimizers.Adam(5e-3), loss, metrics=["accuracy"])
        model.fit(*pairs(arguments.examples, seed=0), epochs=arguments.epochs, batch_size=64, verbose=0)
        _, accuracy = model.evaluate(*pairs(500, seed=1), verbose=0)
        print(f"{interaction}: {accuracy:.3f} of 500 new pairs right")
    pair, _ = pairs(1, seed=3)
    print("first ", *pair["first"][0], "\nsecond", *pair["second"][0])
    for seen in probe(model, pair)[1]:
        for name, matrix in seen.matrices.items():
            rows = keras.ops.convert_to_numpy(matrix).reshape(-1, LENGTH, LENGTH)[0]
            print(f"{seen.kind} {name}, call {seen.call}: each row's first choice", *rows.argmax(-1))


if __name__ == "__main__":
    main()
