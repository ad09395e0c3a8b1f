"""A Transformer encoder block with any attention."""

from functools import partial
from typing import Any

import keras

from keras_quasiattn.core.arguments import call_arguments
from keras_quasiattn.core.masks import (
    as_boolean_mask,
    check_attention_mask,
    check_sequence_mask,
    sequence_mask,
    zero_padding,
)
from keras_quasiattn.layers.transformer_block import (
    TransformerBlock,
    call_attention,
    scores_shape,
    scores_spec,
)

Tensor = Any


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class TransformerEncoder(TransformerBlock):
    """Let every position attend to all positions, then apply a feed-forward network: one block.

    x = inputs + Dropout(Attention(LayerNorm(inputs)))
    output = x + Dropout(FeedForward(LayerNorm(x)))

    With `normalize_first=False`: x = LayerNorm(inputs + Dropout(Attention(inputs))), and output =
    LayerNorm(x + Dropout(FeedForward(x))).

    Masking: padding neither attends nor is attended to, no mean includes it, and its values never
    matter. An explicit `mask` replaces the implicit Keras mask. `attention_mask` and
    `use_causal_mask` hide further pairs. The output keeps the mask.

    Args:
        intermediate_dim: positive integer, inner width of the feed-forward net.
        num_heads: positive integer, number of attention heads. None if `attention` is a layer.
        attention: name of an attention, such as "coda" (`MultiHeadCoDA`, the default) or "softmax"
            (`MultiHeadSoftmax`). Or any unbuilt Keras layer with the call arguments and
            `build(query_shape, value_shape)` of `keras.layers.MultiHeadAttention`, or such a
            layer's configuration from `keras.saving.serialize_keras_object`; the block makes its
            own copy from the configuration.
        attention_options: dict of further constructor arguments for a named attention, such as
            `{"gate_range": "centered"}`. By default `use_bias` is False, and `dropout` the block's.
        key_dim: head size. Defaults to width / num_heads.
        dropout: rate in [0, 1) after each half, on the attention weights and inside the
            feed-forward net. Defaults to 0.
        activation: activation of the feed-forward net. Defaults to "relu".
        layer_norm_epsilon: number added to the variance. Defaults to 1e-6.
        kernel_initializer: initializer of all kernels. Defaults to "glorot_uniform".
        normalize_first: True normalizes the input of each half (pre-norm), False the sum after it
            (post-norm). Defaults to True.

    Call arguments:
        inputs: (B, T, D).
        mask: boolean (B, T), True = real.
        training: whether to apply dropout.
        attention_mask: optional boolean or 0/1 integer (B, T, T), (T, T) or (B, N, T, T), True =
            the query of the row attends to the key of the column.
        use_causal_mask: whether position t sees positions 0 … t only. Defaults to False.
        return_attention_scores: also return the weights of the attention, (B, N, T, T).

    Returns:
        (B, T, D); with `return_attention_scores`, a tuple of that and the weights.

    Raises:
        ValueError: an argument is out of range, the heads do not divide the width, the inputs are
            not of rank 3, or a mask holds floats or has the wrong shape.

    Example:
    >>> block = TransformerEncoder(intermediate_dim=64, num_heads=2)
    >>> tokens = keras.ops.convert_to_tensor([[4, 2, 0], [3, 0, 0]])
    >>> x = keras.layers.Embedding(10, 16, mask_zero=True)(tokens)
    >>> block(x).shape == (2, 3, 16)
    True

    Source: Vaswani et al. 2017, "Attention Is All You Need", section 3.1 (post-norm); pre-norm,
    epsilon and the position of dropout as in Tensor2Tensor. CoDA in the block: Tay et al. 2019, eq.
    10.
    """

    def build(self, inputs_shape: tuple[int | None, ...]) -> None:
        """Create the attention, the norm and the feed-forward network."""
        self.attention_norm, self.attention, self.attention_dropout = self._make_attention_sublayer(
            "attention", inputs_shape, inputs_shape
        )
        self.feed_forward.build(inputs_shape)

    def call(
        self,
        inputs: Tensor,
        mask: Tensor | None = None,
        training: bool | None = None,
        attention_mask: Tensor | None = None,
        use_causal_mask: bool = False,
        return_attention_scores: bool = False,
    ) -> Any:
        """Apply the block; see the class."""
        self._check_masks(inputs, mask, attention_mask)
        mask = sequence_mask(mask, "mask", inputs, reads_implicit=True)
        attention_mask = as_boolean_mask(attention_mask, "attention_mask")
        attend = partial(
            call_attention,
            query_mask=mask,
            value_mask=mask,
            attention_mask=attention_mask,
            use_causal_mask=use_causal_mask,
            return_attention_scores=return_attention_scores,
            training=training,
        )
        # This new tensor carries no implicit mask: the attention uses only those passed above.
        inputs = zero_padding(keras.ops.cast(inputs, self.compute_dtype), mask)  # from integers
        hides = self._hides(self.attention, attention_mask, use_causal_mask)
        x, scores = self._apply_attention_sublayer("attention", inputs, attend, training, hides)
        output = self.feed_forward(x, mask=mask, training=training, isolate_rows=hides)
        return (output, *scores) if scores else output

    def _check_masks(self, inputs: Tensor, mask: Any, attention_mask: Any) -> None:
        check_sequence_mask(mask, "mask", inputs, "`attention_mask`")
        shape = scores_shape(getattr(self, "attention", None), inputs, inputs)
        check_attention_mask(attention_mask, "attention_mask", shape, "`mask`")

    def compute_output_spec(self, *args: Any, **kwargs: Any) -> Any:
        """Return the symbolic output (B, T, D) and, if requested, scores (B, N, T, T)."""
        given = call_arguments(self, args, kwargs)
        inputs = given["inputs"]
        self._check_masks(inputs, given["mask"], given["attention_mask"])
        output = keras.KerasTensor(tuple(inputs.shape), dtype=self.compute_dtype)
        if not given["return_attention_scores"]:
            return output
        return output, scores_spec(self.attention, inputs, inputs)
