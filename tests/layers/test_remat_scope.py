"""What `keras.RematScope` does to a block, and the way that works on every backend."""

from typing import Any

import keras
import numpy as np
import pytest
from tools import long_except, only_on

from keras_quasiattn.attention.base import ATTENTIONS
from keras_quasiattn.layers import TransformerEncoder

X = np.random.default_rng(0).normal(size=(2, 4, 8)).astype("float32")
MASK = np.array([[True] * 4, [True, True, False, False]])


class Rematerialized(keras.layers.Layer):
    """As in docs/guides/keras-limits.md."""

    def __init__(self, block: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.block, self.supports_masking = block, True

    def build(self, shape: Any) -> None:
        self.block.build(shape)

    def call(self, x: Any, mask: Any = None, training: Any = None) -> Any:
        return keras.remat(lambda x: self.block(x, mask=mask, training=training))(x)


def trained(wrap: Any, attention: str) -> list[np.ndarray]:
    """Return the weights after one update from fixed initial weights."""
    x, mask = keras.Input((4, 8)), keras.Input((4,), dtype="bool")
    block = wrap(TransformerEncoder(4, 2, attention=attention))
    model = keras.Model([x, mask], block(x, mask=mask))
    for number, weight in enumerate(model.weights):
        weight.assign(np.random.default_rng(number).normal(size=weight.shape))
    # Graphs take most of the time; one attention shows that they learn the same.
    model.compile(keras.optimizers.SGD(0.1), "mse", run_eagerly=attention != "coda")
    model.train_on_batch([X, MASK], X)
    return model.get_weights()


@pytest.mark.parametrize("attention", long_except(sorted(ATTENTIONS.keys() - {"gated"}), "coda"))
def test_a_rematerialized_block_trains_as_the_block(attention):
    pairs = zip(trained(Rematerialized, attention), trained(lambda b: b, attention), strict=True)
    for weight, known in pairs:
        np.testing.assert_allclose(weight, known, atol=1e-5)


@only_on("torch", "fails on the others")
def test_a_block_made_in_the_scope_trains_on_pytorch():
    def in_scope(block: Any) -> Any:
        with keras.RematScope(mode="full"):
            return type(block).from_config(block.get_config())

    pairs = zip(trained(in_scope, "coda"), trained(lambda b: b, "coda"), strict=True)
    for weight, known in pairs:
        np.testing.assert_allclose(weight, known, atol=1e-5)
