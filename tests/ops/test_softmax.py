"""Softmax attention, and conflict heads next to softmax heads, against their definitions."""

import inspect

import keras
import numpy as np
import pytest
import reference
from tools import run_with_gradients, to_numpy
from weight_laws import WeightLaws, products, softmax

from keras_quasiattn import layers, ops
from keras_quasiattn.core.masks import masked_softmax


class TestSoftmax(WeightLaws):
    op = staticmethod(ops.softmax_attention)
    layer = layers.MultiHeadSoftmax

    def arguments_of(self, layer, query, key):
        return {"scale": layer.key_dim**-0.5}

    def weights(self, query, key, seen, bias, *, scale=1.0):
        return softmax(products(query, key, scale) + bias, seen)


def test_large_scores():
    x = np.array([[[1e4], [-1e4]]], "float32")
    np.testing.assert_array_equal(to_numpy(ops.softmax_attention(x, x, x)), x)


@pytest.mark.filterwarnings("error:You are using a softmax")
def test_keras_warned_of_the_softmax_over_a_single_key():
    mask = keras.ops.convert_to_tensor([[True], [False]])
    (all_, shown), (gradient,) = run_with_gradients(
        lambda x: [masked_softmax(x, None), masked_softmax(x, mask)],
        [np.array([[5.0], [-5.0]])],
        [np.full((2, 1), 3.0)] * 2,
    )
    np.testing.assert_array_equal(all_, [[1], [1]])
    np.testing.assert_array_equal(shown, [[1], [0]])
    np.testing.assert_array_equal(gradient, [[0], [0]])


def test_other_functions_take_its_options_from_scale_on_as_they_say():
    # The list held `gates`, which no other function takes.
    names = list(inspect.signature(ops.softmax_attention).parameters)
    x, seed = np.ones((2, 3, 4), "float32"), np.array([3, -7], "int32")
    given = {"scale": 0.5, "is_causal": True, "dropout": 0.1, "dropout_seed": seed}
    given |= {"bias": np.zeros((3, 3), "float32"), "return_scores": True}
    assert names[names.index("scale") :] == list(given)
    for name in ("sigmoid", "relu", "sparsemax", "entmax", "null_softmax", "signed_softmax"):
        output, _ = getattr(ops, f"{name}_attention")(x, x, x, **given)
        assert output.shape == x.shape


class TestMultiHeadConflict(WeightLaws):
    op = staticmethod(ops.multi_head_conflict_attention)
    layer = layers.MultiHeadConflict
    options = tuple({"scale": 0.3, "difference": one} for one in ("absolute", "signed", "squared"))

    def tensors(self, size):
        count = 1 + size[0] % 3  # of three heads
        return {"score_kernels": np.random.default_rng(2).normal(size=(size[2], count))}

    def arguments_of(self, layer, query, key):
        kernels = to_numpy(layer.score_kernels.value)
        return {"scale": layer.key_dim**-0.5, "score_kernels": kernels}

    def weights(self, query, key, seen, bias, *, score_kernels, scale=1.0, difference="absolute"):
        weights = softmax(products(query, key, scale) + bias, seen)
        u, v = np.tanh(query), np.tanh(key)
        for head, kernel in zip((2, 1, 0), score_kernels.T[::-1], strict=False):
            heads = u[:, head], v[:, head], kernel, difference, seen[:, head]
            weights[:, head] = reference.conflict_weights(*heads, bias=bias[:, head])
        return weights
