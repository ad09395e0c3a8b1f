"""Fit a model with JAX on one device and on two; print what `test_data_parallel` compares."""

import json

import keras
import numpy as np

from keras_quasiattn.layers import MultiHeadCoDA, SoftAttention


def make_model() -> keras.Model:
    """Return CoDA over tokens, pooled by attention, without noise, with seeded weights."""
    keras.utils.set_random_seed(5)
    ids = keras.Input((None,), dtype="int32")
    x = keras.layers.Embedding(20, 16, mask_zero=True)(ids)
    x = keras.layers.LayerNormalization()(x + MultiHeadCoDA(2, 8)(x, x))
    x = SoftAttention()(x)
    model = keras.Model(ids, keras.layers.Dense(3)(x))
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def fitted(ids: np.ndarray, labels: np.ndarray) -> tuple[list[np.ndarray], list[float]]:
    """Return the weights after two epochs, and the losses."""
    model = make_model()
    history = model.fit(ids, labels, batch_size=8, epochs=2, shuffle=False, verbose=0)
    return [np.asarray(weight) for weight in model.get_weights()], history.history["loss"]


def main() -> None:
    draw = np.random.default_rng(0)
    ids = draw.integers(1, 20, (32, 7))
    ids[np.arange(7) >= draw.integers(0, 8, (32, 1))] = 0  # padding, and texts that are all padding
    labels = draw.integers(0, 3, 32)
    one, losses = fitted(ids, labels)
    devices = keras.distribution.list_devices("cpu")
    keras.distribution.set_distribution(keras.distribution.DataParallel(devices=devices))
    two, shared_losses = fitted(ids, labels)
    difference = max(
        float(np.abs(left - right).max()) for left, right in zip(one, two, strict=True)
    )
    moved = max(
        float(np.abs(weight - start).max())
        for weight, start in zip(two, make_model().get_weights(), strict=True)
    )
    print(
        json.dumps(
            {
                "devices": len(devices),
                "difference": difference,
                "moved": moved,
                "losses": [losses, shared_losses],
            }
        )
    )


if __name__ == "__main__":
    main()
