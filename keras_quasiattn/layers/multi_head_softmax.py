"""Softmax attention that keeps this package's mask laws."""

from typing import Any

import keras
from keras import ops

from keras_quasiattn.ops.masking import check_mask, zero_masked

Tensor = Any


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class MultiHeadSoftmax(keras.layers.MultiHeadAttention):
    """`keras.layers.MultiHeadAttention` in which a query with nothing to attend gets zeros.

    output = softmax(QKᵀ/√H + mask)·V for a query that sees a key, 0 for one that sees none.

    Keras gives such a query the plain mean of all values, padding included, on the path without scores.
    Constructor, call, scores and configuration are those of `keras.layers.MultiHeadAttention`.

    Args:
        *args: as for `keras.layers.MultiHeadAttention`.
        **kwargs: as for `keras.layers.MultiHeadAttention`.

    Raises:
        ValueError: a mask holds floats.

    Example:

    >>> layer = MultiHeadSoftmax(num_heads=2, key_dim=8)
    >>> x = keras.ops.ones((1, 3, 16))
    >>> nothing = keras.ops.zeros((1, 3, 3), dtype="bool")
    >>> float(keras.ops.max(keras.ops.abs(layer(x, x, attention_mask=nothing))))
    0.0

    Reference: Vaswani et al. 2017, "Attention Is All You Need", section 3.2.
    """

    def call(
        self,
        query: Tensor,
        value: Tensor,
        key: Tensor | None = None,
        query_mask: Tensor | None = None,
        value_mask: Tensor | None = None,
        key_mask: Tensor | None = None,
        attention_mask: Tensor | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
        use_causal_mask: bool = False,
    ) -> Any:
        """As `keras.layers.MultiHeadAttention.call`."""
        masks = {"query_mask": query_mask, "value_mask": value_mask, "key_mask": key_mask}
        for name, mask in {**masks, "attention_mask": attention_mask}.items():
            check_mask(mask, name)
        return super().call(
            query,
            value,
            key=key,
            **masks,
            attention_mask=attention_mask,
            return_attention_scores=return_attention_scores,
            training=training,
            use_causal_mask=use_causal_mask,
        )

    def _compute_attention(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Tensor | None = None,
        training: bool | None = None,
        return_attention_scores: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        output, scores = super()._compute_attention(
            query, key, value, attention_mask, training, return_attention_scores
        )
        if attention_mask is None:
            return output, scores
        sees_a_key = ops.any(attention_mask, axis=-1)  # (B, T), or (B, N, T) with a mask for every head
        if len(sees_a_key.shape) == 3:
            sees_a_key = ops.transpose(sees_a_key, (0, 2, 1))
        else:
            sees_a_key = ops.expand_dims(sees_a_key, -1)
        return zero_masked(output, ops.expand_dims(sees_a_key, -1)), scores  # (B, T, N, H)
