"""Keras' attention and a layer of this package, for the tests of drop-in replacement."""

import inspect

import keras
import numpy as np
import pytest
from keras.layers import MultiHeadAttention
from layer_case import randomize
from tools import normal, to_numpy

from keras_quasiattn.layers import MultiHeadCoDA, MultiHeadSoftmax

every_layer = pytest.mark.parametrize("layer_type", [MultiHeadSoftmax, MultiHeadCoDA])

FEATURES, HEADS, HEAD_SIZE = 11, 2, 3
SHAPES = [(None, None, FEATURES)] * 2


QUERY, VALUE = normal(3, 5, FEATURES), normal(3, 7, FEATURES, seed=1)
MASK = np.random.default_rng(1).random((3, 5, 7)) > 0.4
MASK[..., 0] = True  # no empty rows, where Keras differs


def needs(options):
    """Skip the test if this Keras lacks one of the `options`."""
    known = inspect.signature(MultiHeadAttention.__init__).parameters
    for name in {"sliding_window", "use_gate"} & options.keys():
        if name not in known:
            pytest.skip(f"Keras {keras.__version__} has no {name}")


def built(layer_type, *shapes, **options):
    """Return a layer with random weights."""
    layer = layer_type(HEADS, HEAD_SIZE, **{"name": "attention", **options})
    layer.build(*(shapes or SHAPES))
    randomize(layer)
    return layer


def twins(layer_type, *shapes, **options):
    """Return Keras' layer and one of `layer_type`, with equal options and weights."""
    needs(options)
    return [built(t, *shapes, **options) for t in (MultiHeadAttention, layer_type)]


def names(layer):
    """Return the paths of the weights within the layer."""
    return [w.path.split("/", 1)[1] for w in layer.weights]


def close(got, expected):
    """Return whether all arrays are equal up to rounding."""
    got, expected = (keras.tree.flatten(to_numpy(x)) for x in (got, expected))
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def self_attention_model(layer_type, **options):
    """Return a model from tokens, with 0 as padding, to attended features."""
    tokens = keras.Input((None,), dtype="int32")
    x = keras.layers.Embedding(10, FEATURES, mask_zero=True)(tokens)
    x = layer_type(HEADS, HEAD_SIZE, name="attention", **options)(x, x)
    return keras.Model(tokens, x)
