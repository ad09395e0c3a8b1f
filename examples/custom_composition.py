"""A composition of your own: a short layer on `ops.pairwise_l1` that trains, saves and loads.

    python examples/custom_composition.py

M = softsign(E) ⊙ exp(N) instead of CoDA's tanh(E) ⊙ 2·sigmoid(N). A composition needs E and N. Only
N is hard: `ops.pairwise_l1` computes it without a tensor of every pair and feature. The task is
made up: do two texts share a word?
"""

import argparse
import tempfile
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_quasiattn.layers import MaskedPooling
from keras_quasiattn.ops import pairwise_l1


@keras.saving.register_keras_serializable("my_project")
class SoftsignCoDA(keras.layers.Layer):
    """Combine a (B, T, D) with b (B, S, D) by M = softsign(E) ⊙ exp(N).

    Returns M·b (B, T, D) and keeps the mask of a.
    """

    def call(self, inputs: list[Any], mask: list[Any] | None = None) -> Any:
        """M·b: what each position of a receives from b; padding of b has weight 0."""
        a, b = inputs
        size = a.shape[-1]
        E = keras.ops.matmul(a, keras.ops.swapaxes(b, -1, -2)) / size  # (B, T, S)
        N = -pairwise_l1(a, b) / size  # (B, T, S)
        M = keras.ops.softsign(E) * keras.ops.exp(N)
        if mask is not None and mask[1] is not None:
            M = keras.ops.where(mask[1][:, None, :], M, 0.0)  # mask[1]: (B, S)
        return keras.ops.matmul(M, b)

    def compute_mask(self, inputs: list[Any], mask: list[Any] | None = None) -> Any:
        """Return the mask of a."""
        return None if mask is None else mask[0]

    def compute_output_shape(self, inputs_shape: list[Any]) -> Any:
        """Return the shape of a."""
        return inputs_shape[0]


def make_model(vocabulary: int) -> keras.Model:
    """Return a model from two texts to the probability that they share a word."""
    first, second = (keras.Input((None,), dtype="int32", name=name) for name in ("first", "second"))
    embed = keras.layers.Embedding(vocabulary, 32, mask_zero=True)
    a, b = embed(first), embed(second)
    compared = keras.layers.Concatenate()([a, SoftsignCoDA()([a, b])])
    pooled = MaskedPooling("max")(keras.layers.Dense(64, activation="relu")(compared))
    return keras.Model([first, second], keras.layers.Dense(1, activation="sigmoid")(pooled))


def main() -> None:
    """Train, save, load and compare."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=8000)
    parser.add_argument("--epochs", type=int, default=20)
    arguments = parser.parse_args()
    keras.utils.set_random_seed(0)
    draw = np.random.default_rng(0)
    a, b = draw.integers(1, 20, (2, arguments.pairs, 6))
    b[:, 4:] = 0  # padding
    # (pairs, 6, 4): each word of a compared with each word of b that is not padding
    shared = (a[:, :, None] == b[:, None, :4]).any((1, 2)).astype("float32")
    model = make_model(20)
    model.compile(keras.optimizers.Adam(1e-2), "binary_crossentropy", metrics=["accuracy"])
    model.fit(
        [a, b], shared, batch_size=64, epochs=arguments.epochs, verbose=0, validation_split=0.2
    )
    print(
        f"held-out accuracy {model.history.history['val_accuracy'][-1]:.3f}, "
        f"{shared.mean():.3f} by always yes"
    )
    with tempfile.TemporaryDirectory() as folder:
        model.save(file := Path(folder) / "model.keras")
        loaded = keras.models.load_model(file)
    difference = np.abs(model.predict([a, b], verbose=0) - loaded.predict([a, b], verbose=0)).max()
    print(f"saved and loaded: answers differ by {difference:.1g} at most")


if __name__ == "__main__":
    main()
