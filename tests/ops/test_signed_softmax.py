"""Signed softmax against its definition."""

import numpy as np
from weight_laws import WeightLaws, products, softmax

from keras_quasiattn import layers, ops


class TestSignedSoftmax(WeightLaws):
    op = staticmethod(ops.signed_softmax_attention)
    layer = layers.MultiHeadSignedSoftmax

    def weights(self, query, key, seen, bias, *, scale=1.0):
        e = products(query, key, scale) + bias
        return np.sign(e) * softmax(np.abs(e), seen)
