"""A row to which a causal mask, a window or a length of 0 leaves no key is zero for any bias."""

import numpy as np
import pytest
from layer_case import randomize
from tools import to_numpy

from keras_quasiattn.layers import (
    MultiHeadCoDA,
    MultiHeadConflict,
    MultiHeadGated,
    MultiHeadSoftmax,
)

every_layer = pytest.mark.parametrize(
    "layer_type", [MultiHeadCoDA, MultiHeadConflict, MultiHeadGated, MultiHeadSoftmax]
)


def make(layer_type, rank=3, **options):
    layer = layer_type(2, 3, **options)
    layer.build((None,) * (rank - 1) + (11,), (None,) * (rank - 1) + (11,))
    randomize(layer)
    return layer


def zero_rows(output):
    output = to_numpy(output)
    assert np.isfinite(output).all()
    return ~output.any(axis=-1)


def normal(*shape):
    return np.random.default_rng(0).normal(size=shape).astype("float32")


@every_layer
def test_left_padded_keys_under_a_causal_mask(layer_type):
    x = normal(3, 5, 11)
    real = np.array([[False, False, True, True, True], [True] * 5, [False] * 5])
    empty = zero_rows(make(layer_type)(x, x, value_mask=real, use_causal_mask=True))
    np.testing.assert_array_equal(empty, np.cumsum(real, axis=1) == 0)


@every_layer
def test_causal_rows_per_head(layer_type):
    x = normal(3, 5, 11)
    mask = np.random.default_rng(1).random((3, 2, 5, 5)) > 0.8
    mask[0, :, 0] = False
    seen = (mask & np.tril(np.ones((5, 5), "bool"))).any(axis=(1, 3))
    empty = zero_rows(make(layer_type)(x, x, attention_mask=mask, use_causal_mask=True))
    np.testing.assert_array_equal(empty, ~seen)


@every_layer
@pytest.mark.parametrize("is_causal", [False, True])
def test_queries_whose_window_holds_no_key(layer_type, is_causal):
    layer = make(layer_type, sliding_window=2)
    queries, values = normal(3, 7, 11), normal(3, 3, 11)
    empty = zero_rows(layer(queries, values, use_causal_mask=is_causal))
    np.testing.assert_array_equal(empty, np.broadcast_to(np.arange(7) > 3, (3, 7)))
    real = np.array([[False, True, True], [True, False, False], [False] * 3])
    empty = zero_rows(layer(queries, values, value_mask=real, use_causal_mask=is_causal))
    distance = np.arange(7)[:, None] - np.arange(3)
    near = (np.abs(distance) < 2) & ((distance >= 0) | (not is_causal))
    np.testing.assert_array_equal(empty, ~(near & real[:, None]).any(axis=-1))


@every_layer
def test_no_keys_under_a_broadcast_mask(layer_type):
    layer = make(layer_type)
    assert zero_rows(
        layer(normal(3, 5, 11), normal(3, 0, 11), attention_mask=np.ones((5, 1), "bool"))
    ).all()


@every_layer
def test_two_dimensional_positions(layer_type):
    x, real = normal(3, 2, 5, 11), np.random.default_rng(1).random((3, 2, 5)) > 0.5
    real[1] = False
    layer = make(
        layer_type, rank=4, attention_axes=2
    )  # along the last axis of positions, for each of the first
    empty = zero_rows(layer(x, x, value_mask=real, use_causal_mask=True))
    np.testing.assert_array_equal(empty, np.cumsum(real, axis=2) == 0)
    layer = make(layer_type, rank=4)  # over both at once
    empty = zero_rows(layer(x, x, value_mask=real))
    np.testing.assert_array_equal(
        empty, np.broadcast_to(~real.any(axis=(1, 2), keepdims=True), (3, 2, 5))
    )
