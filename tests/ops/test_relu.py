"""ReLU attention against its definition."""

import numpy as np
from weight_laws import WeightLaws, counted, products

from keras_quasiattn import layers, ops


class TestReLU(WeightLaws):
    op = staticmethod(ops.relu_attention)
    layer = layers.MultiHeadReLU

    def weights(self, query, key, seen, bias, *, scale=1.0):
        scores = products(query, key, scale) + bias
        return np.where(seen, np.maximum(scores, 0) / counted(seen), 0)
