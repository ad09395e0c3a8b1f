"""Classify pairs of texts with decomposable attention, softmax and CoDA, with Keras only.

    python examples/pairs.py

The task is made up: does the second text have all the words of the first, in any order? Ids may
come from any tokenizer; 0 is padding. For texts in files, use
`quasiattn train pairs --data my-pairs.tsv`.
"""

import argparse

import keras
import numpy as np

from keras_quasiattn.models import PairClassifier

VOCABULARY, LENGTH = 40, 8


def pairs(count: int, seed: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Random pairs: {"first": ids, "second": ids}, both (count, LENGTH), and labels (count,).

    The label is 1 if both texts have the same words.
    """
    draw = np.random.default_rng(seed)
    first = np.stack([draw.permutation(VOCABULARY - 1)[:LENGTH] + 1 for _ in range(count)])
    second = draw.permuted(first, axis=1)
    exchanged = draw.random(count) < 0.5
    second[exchanged, draw.integers(0, LENGTH)] = draw.integers(1, VOCABULARY, exchanged.sum())
    same = [set(a) == set(b) for a, b in zip(first, second, strict=True)]
    return {"first": first, "second": second}, np.array(same)


def main() -> None:
    """Train and evaluate both kinds of attention."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--examples", type=int, default=4000)
    parser.add_argument("--epochs", type=int, default=6)
    arguments = parser.parse_args()
    for attention in ("softmax", "coda"):
        keras.utils.set_random_seed(0)
        model = PairClassifier(
            VOCABULARY, 2, embedding_dim=32, units=64, projection_dim=64, attention=attention
        )
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.Adam(1e-3), loss, metrics=["accuracy"])
        model.fit(
            *pairs(arguments.examples, seed=0), epochs=arguments.epochs, batch_size=64, verbose=0
        )
        _, accuracy = model.evaluate(*pairs(500, seed=1), verbose=0)
        print(f"{attention}: {accuracy:.3f} of 500 new pairs right")


if __name__ == "__main__":
    main()
