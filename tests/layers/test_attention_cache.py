import itertools

import keras
import numpy as np
import pytest
from keras import ops
from tools import normal

from keras_quasiattn.attention.base import ATTENTIONS
from keras_quasiattn.attention.cache import (
    attend_from_cache,
    read_into_cache,
    start_attention_cache,
)
from keras_quasiattn.layers import MultiHeadCoDA, MultiHeadGated, MultiHeadSoftmax

B, T, S, D, E = 3, 5, 7, 12, 8


class DistanceMean(keras.layers.Layer):
    """A layer with Keras' call arguments, whose weights depend on the positions of a pair."""

    def build(self, query_shape, value_shape):
        self.dense = keras.layers.Dense(query_shape[-1])
        self.dense.build(value_shape)

    def call(
        self, query, value, query_mask=None, value_mask=None, use_causal_mask=False, training=None
    ):
        distance = ops.arange(query.shape[1])[:, None] - ops.arange(value.shape[1])[None]
        weights = 1.0 / (1.0 + ops.cast(ops.abs(distance), "float32"))
        weights = ops.where(distance < 0, 0.0, weights) if use_causal_mask else weights
        if value_mask is not None:
            weights = weights * ops.cast(value_mask[:, None], "float32")
        return ops.matmul(weights, self.dense(value)) + query


LAYERS = {
    "coda": lambda: MultiHeadCoDA(2, 3, value_dim=4, alpha="learned", scaling="paper"),
    "centered": lambda: MultiHeadCoDA(
        2, 3, gate_range="centered", center_similarity=True, center_per_query=True
    ),
    "coda gate": lambda: MultiHeadCoDA(2, 3, use_gate=True),
    "coda window": lambda: MultiHeadCoDA(2, 3, sliding_window=2),
    "gated": lambda: MultiHeadGated(2, 3, threshold=0.45),
    "softmax": lambda: MultiHeadSoftmax(2, 3, value_dim=4),
    "rotated": lambda: MultiHeadCoDA(4, 6, num_key_value_heads=2, rotary_base=10.0),
    "rotated gate": lambda: MultiHeadSoftmax(4, 6, use_gate=True, rotary_base=10.0),
    "shared": lambda: MultiHeadGated(4, 3, num_key_value_heads=2, threshold=0.45),
    "keras": lambda: keras.layers.MultiHeadAttention(2, 3),
    "gate": lambda: keras.layers.MultiHeadAttention(2, 3, use_gate=True),
    "window": lambda: keras.layers.MultiHeadAttention(2, 3, sliding_window=2),
    "other": DistanceMean,
}

ATTENTIONS = {name: lambda layer=layer: layer(2, 4) for name, layer in ATTENTIONS.items()}


EVERY = {**LAYERS, **{f"any {name}": make for name, make in ATTENTIONS.items()}}
CASES = [
    *itertools.product(LAYERS, (True, False), [0], [True]),
    *itertools.product(("coda", "keras"), (True, False), [0], [False]),
    *itertools.product(EVERY, [True], [T], [True]),
    # Here reading at once does what a single query does, or is the layer's own call.
    *(pytest.param(name, False, T, True, marks=pytest.mark.long) for name in EVERY),
]


@pytest.mark.parametrize(("name", "is_causal", "read", "masked"), CASES)
def test_a_cache_gives_the_rows_of_one_call(name, is_causal, read, masked):
    """Read positions at once, of which the last is padding, then go on from there step by step."""
    layer, start = EVERY[name](), max(read - 1, 0)
    queries = ops.convert_to_tensor(normal(B, T, D))
    values = queries if is_causal else ops.convert_to_tensor(normal(B, S, E, seed=1))
    mask = np.random.default_rng(2).random((B, T if is_causal else S)) < 0.7
    mask[:, 0] = True
    given = ops.convert_to_tensor(mask) if masked else None
    layer.build(queries.shape, values.shape)
    want = ops.convert_to_numpy(
        layer(queries, values, value_mask=given, use_causal_mask=is_causal, training=False)
    )
    cache = start_attention_cache(layer, ops.full((B, T, D), 1e3), None if is_causal else values)
    assert all(leaf.shape[0] == B for leaf in cache.values())
    if read:
        first = ops.concatenate([queries[:, :start], ops.full((B, read - start, D), 7.0)], axis=1)
        first_mask = mask[:, :read] & (np.arange(read) < start) if is_causal else mask
        rows, cache = read_into_cache(
            layer, first, cache, ops.convert_to_tensor(first_mask), is_causal=is_causal
        )
        real = mask[:, :start] if is_causal else np.ones((B, start), bool)
        np.testing.assert_allclose(
            ops.convert_to_numpy(rows)[:, :start][real], want[:, :start][real], atol=1e-5
        )
    for index in range(start, T):
        query = queries[:, index : index + 1]
        row, cache = attend_from_cache(layer, query, index, cache, given, is_causal=is_causal)
        np.testing.assert_allclose(ops.convert_to_numpy(row)[:, 0], want[:, index], atol=1e-5)


@pytest.mark.parametrize(
    "layer", [MultiHeadCoDA(2, 3, bias_initializer="ones"), MultiHeadSoftmax(2, 3)]
)
def test_a_query_with_nothing_to_attend_gets_zeros(layer):
    layer.build((B, T, D), (B, S, E))
    cache = start_attention_cache(layer, ops.zeros((B, T, D)), ops.ones((B, S, E)))
    mask = ops.convert_to_tensor(np.array([[True] * S, [False] * S, [True] * S]))
    row, _ = attend_from_cache(layer, ops.ones((B, 1, D)), 0, cache, mask)
    row = ops.convert_to_numpy(row)
    assert (row[1] == 0).all() and (row[[0, 2]] != 0).any()


def test_a_query_with_no_positions_to_attend_to_got_the_bias_of_the_projection():
    layer = MultiHeadSoftmax(2, 3, bias_initializer="ones")
    layer.build((B, T, D), (B, 0, E))
    cache = start_attention_cache(layer, ops.zeros((B, T, D)), ops.zeros((B, 0, E)))
    for read in (
        attend_from_cache(layer, ops.ones((B, 1, D)), 0, cache),
        read_into_cache(layer, ops.ones((B, T, D)), cache),
    ):
        assert not ops.convert_to_numpy(read[0]).any()


def test_a_cache_holds_the_projected_heads_of_keys_and_values_alone():
    layer = MultiHeadSoftmax(4, 6, value_dim=5, num_key_value_heads=1)
    layer.build((B, T, D), (B, S, E))
    cache = start_attention_cache(layer, ops.zeros((B, T, D)), ops.zeros((B, S, E)))
    shapes = {name: tuple(leaf.shape) for name, leaf in cache.items()}
    assert shapes == {"key": (B, S, 1, 6), "value": (B, S, 1, 5)}
