"""Multi-head signed softmax ("cog") attention, a drop-in for Keras' layer."""

import dataclasses
from typing import Any

import keras

from keras_quasiattn import ops
from keras_quasiattn.layers.shared.mechanisms import Mechanism, mechanism, multi_head_layer
from keras_quasiattn.layers.shared.multi_head_attention import MultiHeadQuasiAttention

Tensor = Any


@mechanism("signed_softmax")
@dataclasses.dataclass
class SignedSoftmax(Mechanism):
    """Weights are a softmax of the sizes of dot products, with their signs; no options."""

    op = ops.signed_softmax_attention

    def operations(
        self, queries: int, keys: int, features: int, value_features: int, heads: int = 1
    ) -> int:
        """The sign times the weight, 1, besides D and V."""
        return super().operations(queries, keys, features, value_features + 1, heads)


@multi_head_layer("signed_softmax")
@keras.saving.register_keras_serializable(package="keras_quasiattn")
class MultiHeadSignedSoftmax(MultiHeadQuasiAttention):
    """`keras.layers.MultiHeadAttention` that subtracts the values of keys with negative scores.

    weights = sign(q·kᵀ) ⊙ softmax(|q·kᵀ|/√H) over the visible keys;  output = (weights·v)·W_o

    The call, masks, scores, sublayer names and rows with nothing to attend to are as in
    `layers.MultiHeadSoftmax`.

    A negative `attention_bias` does not delete a key: it is subtracted; −∞ hides the pair. A finite
    one below −1e4, a mask for other attentions, is an error, which graphs cannot find.

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
    >>> from keras_quasiattn.layers import MultiHeadSignedSoftmax
    >>> x = np.ones((2, 5, 16), "float32")
    >>> tuple(MultiHeadSignedSoftmax(num_heads=2, key_dim=8)(x, x).shape)
    (2, 5, 16)

    Source: Lv et al. 2024, "More Expressive Attention with Negative Weights" (Cog Attention).
    """

    options = SignedSoftmax()
