"""Keras layers: weights, masks and configuration around the functions in `ops`."""

from keras_quasiattn.layers.coda import CoDA
from keras_quasiattn.layers.masked_pooling import MaskedPooling
from keras_quasiattn.layers.multi_head_coda import MultiHeadCoDA
from keras_quasiattn.layers.multi_head_softmax import MultiHeadSoftmax

__all__ = ["CoDA", "MaskedPooling", "MultiHeadCoDA", "MultiHeadSoftmax"]
