"""Softmax with a null against its definition, and against a softmax with a key of zeros."""

import numpy as np
import pytest
from checks import arrays, close
from tools import to_numpy
from weight_laws import WeightLaws, products

from keras_quasiattn import layers, ops


class TestNullSoftmax(WeightLaws):
    op = staticmethod(ops.null_softmax_attention)
    layer = layers.MultiHeadNullSoftmax
    options = ({"scale": 0.3}, {"scale": 0.3, "null_score": -1.5})

    def weights(self, query, key, seen, bias, *, scale=1.0, null_score=0.0):
        sizes = np.where(seen, np.exp(products(query, key, scale) + bias), 0)
        return sizes / (np.exp(null_score) + sizes.sum(-1, keepdims=True))


class TestNullOfEachHead(TestNullSoftmax):
    options = ({"scale": 0.3},)

    def tensors(self, size):
        return {"null_score": np.array([-2.0, 0.0, 1.0])[:, None, None]}


def test_scores_far_below_the_null_give_nothing_and_far_above_it_a_softmax():
    query, key, value = arrays((5, 7, 3))
    low, high = (np.full((5, 7), shift) for shift in (-1e5, 1e5))
    assert not to_numpy(ops.null_softmax_attention(query, key, value, bias=low)).any()
    close(
        to_numpy(ops.null_softmax_attention(query, key, value, bias=high)),
        to_numpy(ops.softmax_attention(query, key, value)),
    )


def test_a_null_of_minus_infinity_is_a_softmax_and_gave_nan_to_rows_without_keys():
    query, key, value = arrays((5, 7, 3))
    mask, null = np.arange(5)[:, None] > np.zeros(7), np.full((3, 1, 1), -np.inf)
    close(
        to_numpy(ops.null_softmax_attention(query, key, value, mask, null_score=null)),
        to_numpy(ops.softmax_attention(query, key, value, mask)),
    )


def test_a_null_is_a_number_or_learned():
    for wrong in (None, float("inf"), float("-inf"), float("nan")):  # these would give NaN
        message = f"`null_score` must be a finite number or 'learned'.*={wrong}"
        with pytest.raises(ValueError, match=message):
            layers.MultiHeadNullSoftmax(2, 4, null_score=wrong)
