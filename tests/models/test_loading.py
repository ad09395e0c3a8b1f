"""Models load wherever in memory their parts come to lie."""

from pathlib import Path
from typing import Any

import addresses
import keras
import numpy as np
import pytest
from tools import to_numpy

from keras_quasiattn.layers import MultiHeadCoDA, TransformerEncoder
from keras_quasiattn.layers.recurrence import BidirectionalGRU
from keras_quasiattn.models import DecaProp, Seq2Seq, TextClassifier


def classifier() -> keras.Model:
    return TextClassifier(20, 3, attention="gated", embedding_dim=4, units=3)


def seq2seq() -> keras.Model:
    return Seq2Seq(20, attention="coda", embedding_dim=4, units=3, num_layers=3)


def reader() -> keras.Model:
    return DecaProp(20, embedding_dim=4, units=3, num_layers=2, character_units=2)


def functional() -> keras.Model:
    inputs = keras.Input((5, 4))
    states = TransformerEncoder(8, attention=MultiHeadCoDA(num_heads=2, key_dim=2))(inputs)
    return keras.Model(inputs, BidirectionalGRU(3)(BidirectionalGRU(2)(states)))


@keras.saving.register_keras_serializable(package="tests")
class PlainBidirectional(keras.layers.Layer):
    """A layer that makes Keras' own as it is built."""

    def build(self, inputs_shape: Any) -> None:
        self.recurrent = keras.layers.Bidirectional(keras.layers.GRU(2, return_sequences=True))
        self.recurrent.build(inputs_shape)

    def call(self, inputs: Any) -> Any:
        return self.recurrent(inputs)


def test_keras_still_mistakes_a_layer_for_one_that_is_gone(tmp_path: Path) -> None:
    """Why `bidirectional` exists: once this fails, Keras has mended its own and ours can go."""
    inputs = keras.Input((5, 4))
    outputs = PlainBidirectional()(PlainBidirectional()(PlainBidirectional()(inputs)))
    keras.Model(inputs, outputs).save(tmp_path / "model.keras")
    with addresses.used_again(), pytest.raises(ValueError, match="go_backwards"):
        keras.saving.load_model(tmp_path / "model.keras", compile=False)


@pytest.mark.parametrize(
    "make",
    [
        classifier,
        functional,
        *(pytest.param(make, marks=pytest.mark.long) for make in (seq2seq, reader)),
    ],
)
def test_a_model_loads_though_its_parts_lie_where_others_have_lain(make, tmp_path: Path) -> None:
    """While Keras loads, it takes everything that it serializes at one address for one object.

    It does so even if the first object is long gone.
    """
    model = make()
    model.save(tmp_path / "model.keras")
    with addresses.used_again():
        loaded = keras.saving.load_model(tmp_path / "model.keras", compile=False)
    assert len(loaded.weights) == len(model.weights)
    for one, other in zip(model.weights, loaded.weights, strict=True):
        np.testing.assert_array_equal(to_numpy(one), to_numpy(other), err_msg=one.path)
