"""Sigmoid attention against its definition, and its pairs and options."""

import numpy as np
import pytest
from checks import arrays, close
from tools import to_numpy
from weight_laws import WeightLaws, counted, products

from keras_quasiattn import layers, ops


class TestSigmoid(WeightLaws):
    op = staticmethod(ops.sigmoid_attention)
    layer = layers.MultiHeadSigmoid
    options = ({"scale": 0.3}, {"scale": 0.3, "score_bias": -1.5})

    def weights(self, query, key, seen, bias, *, scale=1.0, score_bias=None):
        common = -np.log(counted(seen)) if score_bias is None else score_bias
        return np.where(seen, 1 / (1 + np.exp(-products(query, key, scale) - bias - common)), 0)


def test_pairs_have_the_weights_of_both_directions():
    a, b, _ = arrays((3, 5, 6), leading=(2,))
    mask_a, mask_b = np.arange(3) < [[2], [3]], np.arange(5) < [[4], [2]]
    layer = layers.DecomposableAttention(4, attention="sigmoid", dtype="float64")
    beta, alpha, of_a, of_b = map(
        to_numpy, layer([a, b], mask=[mask_a, mask_b], return_attention_scores=True)
    )
    query, key = (to_numpy(layer.network(x)) for x in (a, b))
    seen, definition = mask_a[:, :, None] & mask_b[:, None], TestSigmoid().weights
    expected = definition(query, key, seen, 0)
    close(of_a, expected)
    close(beta, expected @ b)
    expected = definition(key, query, np.swapaxes(seen, 1, 2), 0)
    close(of_b, np.swapaxes(expected, 1, 2))
    close(alpha, expected @ a)


def test_a_bias_is_a_number():
    with pytest.raises(ValueError, match="score_bias='large'"):
        layers.MultiHeadSigmoid(2, 4, score_bias="large")
