"""A classifier that reads only a few words: GA-Net's gates, their density, and where they open.

    python examples/gated_reading.py

The task is made up: one of three marker words is somewhere in a text of fillers, and the class
is the marker. The gates should open on little else.
"""

import argparse

import keras
import numpy as np

from keras_quasiattn.layers import GatedAttention

MARKERS, VOCABULARY, LENGTH = 3, 40, 20


def texts(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return ids (count, LENGTH), padded with 0, each with a marker 1 … MARKERS; and the marker."""
    draw = np.random.default_rng(seed)
    ids = draw.integers(MARKERS + 1, VOCABULARY, (count, LENGTH))
    lengths = draw.integers(8, LENGTH + 1, count)
    label = draw.integers(0, MARKERS, count)
    ids[np.arange(count), (draw.random(count) * lengths).astype(int)] = label + 1
    ids[np.arange(LENGTH) >= lengths[:, None]] = 0
    return ids, label


def reader(open_gate_cost: float) -> tuple[keras.Model, keras.Model]:
    """Return the classifier, and a model of the same layers that outputs gates and weights."""
    ids = keras.Input((None,), dtype="int32")
    words = keras.layers.Embedding(VOCABULARY, 16, mask_zero=True)(ids)
    attention = GatedAttention("feed_forward", units=16, open_gate_cost=open_gate_cost, seed=0)
    text, gates, weights = attention(words, return_attention_scores=True)
    return keras.Model(ids, keras.layers.Dense(MARKERS)(text)), keras.Model(ids, [gates, weights])


def main() -> None:
    """Train, then show what the classifier reads in one text."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--examples", type=int, default=3000)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument(
        "--open-gate-cost", type=float, default=1e-3, help="λ, what an open gate costs"
    )
    arguments = parser.parse_args()
    keras.utils.set_random_seed(0)
    model, inside = reader(open_gate_cost=arguments.open_gate_cost)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(5e-3), loss, metrics=["accuracy"])
    model.fit(*texts(arguments.examples, seed=0), epochs=arguments.epochs, batch_size=64, verbose=0)
    figures = model.evaluate(*texts(500, seed=1), verbose=0, return_dict=True)
    print(f"accuracy {figures['accuracy']:.3f}, density {figures['density']:.3f}")
    ids, _ = texts(1, seed=2)
    gates, weights = (keras.ops.convert_to_numpy(one)[0] for one in inside(ids))
    for token, gate, weight in zip(ids[0], gates, weights, strict=True):
        if token:
            print(
                f"{'+' if gate else '-'} {weight:.3f} "
                f"{'marker' if token <= MARKERS else 'word'} {token}"
            )


if __name__ == "__main__":
    main()
