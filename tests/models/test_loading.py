"""Models load, whatever addresses their parts get."""

import addresses
import keras
import numpy as np
import pytest
from tools import long_except, to_numpy

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


@pytest.mark.parametrize(
    "make", long_except([classifier, functional, seq2seq, reader], classifier, functional)
)
def test_a_model_loads_though_its_parts_lie_where_others_have_lain(make, tmp_path):
    """While Keras loads a model, it treats everything serialized at one address as one object.

    It does so even if the first object no longer exists.
    """
    model = make()
    model.save(tmp_path / "model.keras")
    with addresses.used_again():
        loaded = keras.saving.load_model(tmp_path / "model.keras", compile=False)
    assert len(loaded.weights) == len(model.weights)
    for one, other in zip(model.weights, loaded.weights, strict=True):
        np.testing.assert_array_equal(to_numpy(one), to_numpy(other), err_msg=one.path)
