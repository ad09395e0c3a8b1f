"""Pair masks in every attention: any rank, causal, sliding window, and over several axes."""

import functools

import keras
import numpy as np
import pytest
from drop_in import close
from layer_case import randomize
from tools import normal, to_numpy

from keras_quasiattn import layers
from keras_quasiattn.attention.base import ATTENTIONS


@functools.cache
def built(name, rank=3, **options):
    layer = ATTENTIONS[name](2, 4, **options)
    layer.build(*[(None,) * (rank - 1) + (8,)] * 2)
    randomize(layer)
    return layer


X = normal(3, 5, 8)
every_attention = pytest.mark.parametrize("name", ATTENTIONS)
# For what the multi-head layer does to a mask before the attention gets it.
some_attentions = pytest.mark.parametrize("name", ["coda", "softmax", "conflict"])
TRIANGLE = np.tril(np.ones((5, 5), "bool"))


@some_attentions
def test_a_mask_of_any_rank_means_the_same(name):
    layer = built(name)
    expected = to_numpy(layer(X, X, attention_mask=TRIANGLE))
    for shape in ((3, 1, 1), (3, 2, 1, 1)):
        mask = np.tile(TRIANGLE, shape)
        np.testing.assert_allclose(to_numpy(layer(X, X, attention_mask=mask)), expected, atol=1e-6)


@every_attention
def test_a_causal_mask_is_the_triangle(name):
    layer, further = built(name), np.random.default_rng(2).random((3, 5, 5)) < 0.7
    for call, mask in (({}, TRIANGLE), ({"attention_mask": further}, further & TRIANGLE)):
        want = to_numpy(layer(X, X, attention_mask=mask))
        close(layer(X, X, use_causal_mask=True, training=False, **call), want)
        output, scores = to_numpy(
            layer(X, X, use_causal_mask=True, return_attention_scores=True, **call)
        )
        np.testing.assert_allclose(output, want, rtol=1e-4, atol=1e-5)
        assert not scores[..., ~TRIANGLE].any()


@every_attention
def test_a_causal_mask_over_one_of_two_axes(name):
    layer, x = built(name, 4, attention_axes=(1,)), normal(2, 5, 3, 8)
    _, scores = layer(x, x, use_causal_mask=True, return_attention_scores=True)
    assert not to_numpy(scores)[..., ~TRIANGLE].any()


@every_attention
def test_a_window_shows_what_is_in_it(name):
    layer = built(name, sliding_window=3)
    _, scores = layer(X, X, return_attention_scores=True)
    distance = np.abs(np.subtract.outer(np.arange(5), np.arange(5)))
    assert not to_numpy(scores)[..., distance >= 3].any()
    _, scores = layer(X, X, use_causal_mask=True, return_attention_scores=True)
    assert not to_numpy(scores)[..., (distance >= 3) | ~TRIANGLE].any()


def test_the_same_axis_twice_is_named():
    x = np.ones((2, 3, 4, 8), "float32")
    with pytest.raises(ValueError, match=r"`attention_axes` must.*each once.*\(1, -3\)"):
        layers.MultiHeadSoftmax(2, 4, attention_axes=(1, -3))(x, x)


def test_masks_over_axes_count_from_the_batch():
    for q, v, mask, axes in (
        ((3, 4), (3, 2), (4, 2), (2,)),
        ((3, 4), (3, 2), (3, 4, 2), (2,)),
        ((3, 4), (3, 2), (3, 3, 2, 4, 2), (2,)),
        ((3, 4), (3, 2), (3, 4, 3, 2), (1, 2)),
        ((5, 3, 4), (5, 3, 2), (3, 5, 3, 4, 3, 2), (2, 3)),
    ):
        layer = built("coda", len(q) + 2, attention_axes=axes)
        query, value = normal(3, *q, 8), normal(3, *v, 8, seed=1)
        seen = np.random.default_rng(0).random(mask) < 0.6
        assert layer(query, value, attention_mask=seen).shape == query.shape
        everything = np.ones(mask, "bool")
        close(layer(query, value, attention_mask=everything), to_numpy(layer(query, value)))


def assert_empty(output, empty):
    """Assert that these rows, and no others, are zero, without the projection's bias."""
    output = to_numpy(output)
    assert np.isfinite(output).all()
    np.testing.assert_array_equal(~output.any(-1), empty)


REAL = np.array([[False, False, True, True, True], [True] * 5, [False] * 5])


@some_attentions
def test_rows_to_which_no_key_is_left_are_zero_for_any_bias(name):
    layer = built(name)
    output = layer(X, X, value_mask=REAL, use_causal_mask=True)
    assert_empty(output, np.cumsum(REAL, axis=1) == 0)
    of_heads = np.random.default_rng(1).random((3, 2, 5, 5)) > 0.8
    of_heads[0, :, 0] = False
    output = layer(X, X, attention_mask=of_heads, use_causal_mask=True)
    assert_empty(output, ~(of_heads & TRIANGLE).any(axis=(1, 3)))
    assert_empty(
        layer(X, X[:, :0], attention_mask=np.ones((5, 1), "bool")), np.ones((3, 5), "bool")
    )


@some_attentions
@pytest.mark.parametrize("is_causal", [False, True])
def test_rows_whose_window_holds_no_key_are_zero(name, is_causal):
    layer, queries = built(name, sliding_window=2), normal(3, 7, 8)
    distance = np.arange(7)[:, None] - np.arange(3)
    near = (np.abs(distance) < 2) & ((distance >= 0) | (not is_causal))
    output = layer(queries, X[:, :3], use_causal_mask=is_causal)
    assert_empty(output, np.tile(~near.any(-1), (3, 1)))
    output = layer(queries, X[:, :3], value_mask=REAL[:, 1:4], use_causal_mask=is_causal)
    assert_empty(output, ~(near & REAL[:, None, 1:4]).any(-1))


@some_attentions
def test_rows_without_a_key_over_one_axis_and_over_two(name):
    x, real = normal(3, 2, 5, 8), np.random.default_rng(1).random((3, 2, 5)) > 0.5
    real[1] = False
    output = built(name, 4, attention_axes=2)(x, x, value_mask=real, use_causal_mask=True)
    assert_empty(output, np.cumsum(real, axis=2) == 0)
    nothing = ~real.any(axis=(1, 2), keepdims=True)
    assert_empty(built(name, 4)(x, x, value_mask=real), np.broadcast_to(nothing, real.shape))


@some_attentions
def test_hiding_a_key_equals_deleting_it_and_its_content_never_matters(name):
    query, key = normal(3, 4, 8, seed=1), normal(3, 5, 8, seed=2)
    layer, of_values = built(name), np.roll(REAL[::-1], 2, axis=1)
    output = to_numpy(layer(query, X, key, key_mask=REAL))
    for b, real in enumerate(REAL):
        alone = layer(query[b : b + 1], X[b : b + 1, real], key[b : b + 1, real])
        close(alone, output[b : b + 1])
    close(layer(query, X, np.where(REAL[..., None], key, np.nan), key_mask=REAL), output)
    carrying = keras.layers.Masking()(np.where(REAL[..., None], key, 0))
    close(layer(query, X, carrying), output)
    both = layer(query, X, key, value_mask=of_values, key_mask=REAL)
    close(both, layer(query, X, key, value_mask=of_values & REAL))


def test_every_projection_starts_with_numbers_of_its_own():
    initializer = keras.initializers.TruncatedNormal(stddev=0.02)
    layer = ATTENTIONS["coda"](2, 4, use_gate=True, kernel_initializer=initializer)
    layer.build((2, 4, 8), (2, 4, 8))
    projections = (layer.query_dense, layer.key_dense, layer.value_dense, layer._gate_dense)
    kernels = [to_numpy(one.kernel.value) for one in projections]
    assert all((one != other).all() for one in kernels for other in kernels if one is not other)
