"""Softmax attention under the same laws, the baseline of every comparison."""

from typing import Any

import keras

from keras_quasiattn import ops
from keras_quasiattn.layers.multi_head_attention import MultiHeadQuasiAttention, selectable_as

Tensor = Any


@selectable_as("softmax")
@keras.saving.register_keras_serializable(package="keras_quasiattn")
class MultiHeadSoftmax(MultiHeadQuasiAttention):
    """`keras.layers.MultiHeadAttention` with this package's masks: the same weights where both are defined.

    weights = softmax(q·kᵀ/√H) over the visible keys;  output = (weights·v)·W_o

    It differs from Keras' layer in the masks alone: a float mask is an error, explicit masks win, and a row with
    nothing to attend gives exact zeros where Keras averages the padding.

    Args:
        *args: as for `keras.layers.MultiHeadAttention`.
        flash_attention: None or False; there is no flash kernel.
        **kwargs: as for `keras.layers.MultiHeadAttention`.

    Returns:
        (B, T, features), or that and the weights (B, N, T, S) before dropout.

    Raises:
        ValueError: a float mask, shapes that do not fit, `flash_attention=True`.

    Example:
    >>> import numpy as np
    >>> from keras_quasiattn.layers import MultiHeadSoftmax
    >>> x = np.ones((2, 5, 16), "float32")
    >>> tuple(MultiHeadSoftmax(num_heads=2, key_dim=8)(x, x).shape)
    (2, 5, 16)

    Source: Vaswani et al. 2017, eq. 1.
    """

    def weigh(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        *,
        is_causal: bool,
        dropout_seed: Tensor | None,
        return_scores: bool,
        training: bool | None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Softmax attention of the heads."""
        return ops.softmax_attention(
            query,
            key,
            value,
            mask,
            scale=self.key_dim**-0.5,
            is_causal=is_causal,
            dropout=self.dropout if dropout_seed is not None else 0.0,
            dropout_seed=dropout_seed,
            return_scores=return_scores,
        )
