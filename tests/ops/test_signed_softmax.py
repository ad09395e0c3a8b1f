"""Signed softmax against its definition."""

import numpy as np
from checks import arrays
from tools import to_numpy
from weight_laws import WeightLaws, products, softmax

from keras_quasiattn import layers, ops


class TestSignedSoftmax(WeightLaws):
    op = staticmethod(ops.signed_softmax_attention)
    layer = layers.MultiHeadSignedSoftmax

    def weights(self, query, key, seen, bias, *, scale=1.0):
        e = products(query, key, scale) + bias
        return np.sign(e) * softmax(np.abs(e), seen)


def test_a_query_of_the_opposite_sign_gets_the_opposite():
    query, key, value = arrays((5, 7, 3))
    one, other = (to_numpy(ops.signed_softmax_attention(q, key, value)) for q in (query, -query))
    np.testing.assert_array_equal(one, -other)
