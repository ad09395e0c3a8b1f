"""`fit` under `keras.distribution.DataParallel`, which the JAX backend has.

The test starts this file as a script, on two devices.
"""

import json
from pathlib import Path

import keras
import numpy as np
import pytest
import warm

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
    """Fit on one device and on two, and print what the test compares."""
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
    found = {"devices": len(devices), "difference": difference, "moved": moved}
    print(json.dumps({**found, "losses": [losses, shared_losses]}))


@pytest.mark.long
def test_two_devices_learn_what_one_does():
    pytest.importorskip("jax")
    variables = {
        "KERAS_BACKEND": "jax",
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": "--xla_force_host_platform_device_count=2",
    }
    printed = warm.printed([__file__], warm.fresh, [Path(__file__).parents[1]], variables)
    result = json.loads(printed.splitlines()[-1])
    assert result["devices"] == 2
    assert result["moved"] > 1e-3
    assert result["difference"] < 1e-5
    one, two = result["losses"]
    assert two == pytest.approx(one, abs=1e-5)


if __name__ == "__main__":
    main()
