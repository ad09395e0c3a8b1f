"""Multi-head ReLU attention, a drop-in for `keras.layers.MultiHeadAttention`."""

import dataclasses
from typing import Any

import keras

from keras_quasiattn import ops
from keras_quasiattn.layers.shared.mechanisms import Mechanism, mechanism, multi_head_layer
from keras_quasiattn.layers.shared.multi_head_attention import MultiHeadQuasiAttention

Tensor = Any


@mechanism("relu")
@dataclasses.dataclass
class ReLU(Mechanism):
    """Weights are rectified dot products over the number of keys; there are no options."""

    op = ops.relu_attention


@multi_head_layer("relu")
@keras.saving.register_keras_serializable(package="keras_quasiattn")
class MultiHeadReLU(MultiHeadQuasiAttention):
    """`keras.layers.MultiHeadAttention` with independent weights: 0 or above, without a limit.

    weights = max(q·kᵀ/√H, 0)/n over the n visible keys;  output = (weights·v)·W_o

    The call, masks, scores, sublayer names and rows with nothing to attend to are as in
    `layers.MultiHeadSoftmax`.

    Args:
        *args: as for `keras.layers.MultiHeadAttention`: `num_heads`, `key_dim` and so on. There is
            no flash kernel: `flash_attention` must be None or False.
        **kwargs: as for `layers.MultiHeadSoftmax`.

    Returns:
        (B, T, features); with `return_attention_scores`, a tuple of that and the weights
        (B, N, T, S) before dropout.

    Raises:
        ValueError: a float mask, shapes that do not fit together, or `flash_attention=True`.

    Example:
    >>> import numpy as np
    >>> from keras_quasiattn.layers import MultiHeadReLU
    >>> x = np.ones((2, 5, 16), "float32")
    >>> tuple(MultiHeadReLU(num_heads=2, key_dim=8)(x, x).shape)
    (2, 5, 16)

    Source: Wortsman et al. 2023, "Replacing softmax with ReLU in Vision Transformers".
    """

    options = ReLU()
