"""Pure functions on tensors; the only place where an attention weight is computed."""

from keras_quasiattn.ops.coda import coda_attention, coda_pair
from keras_quasiattn.ops.compiled import compiled_in_graphs
from keras_quasiattn.ops.distance import pairwise_l1
from keras_quasiattn.ops.softmax import softmax_attention

__all__ = ["coda_attention", "coda_pair", "compiled_in_graphs", "pairwise_l1", "softmax_attention"]
