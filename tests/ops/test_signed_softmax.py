"""Signed softmax against its definition."""

import numpy as np
from tools import to_numpy
from weight_laws import WeightLaws, products, softmax

from keras_quasiattn import layers, ops


class TestSignedSoftmax(WeightLaws):
    op = staticmethod(ops.signed_softmax_attention)
    layer = layers.MultiHeadSignedSoftmax

    def weights(self, query, key, seen, bias, *, scale=1.0):
        e = products(query, key, scale) + bias
        return np.sign(e) * softmax(np.abs(e), seen)


def test_nan_in_the_score_of_a_hidden_key_was_its_weight():
    query, key, value = np.ones((1, 1)), np.array([[np.nan], [1.0]]), np.ones((2, 1))
    mask = np.array([[False, True]])
    _, weights = ops.signed_softmax_attention(query, key, value, mask, return_scores=True)
    np.testing.assert_array_equal(to_numpy(weights), [[0.0, 1.0]])
