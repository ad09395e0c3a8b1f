"""One decoder block of a Transformer with any attention."""

from typing import Any

import keras
from keras import ops

from keras_quasiattn.layers.shared.arguments import check_sequence, sequence_mask
from keras_quasiattn.layers.shared.attention_cache import attend_from_cache, start_attention_cache
from keras_quasiattn.layers.transformer_block import TransformerBlock
from keras_quasiattn.ops.masking import check_mask, zero_padding

Tensor = Any


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class TransformerDecoder(TransformerBlock):
    """One pre-norm block: self-attention to the past, attention to the encoder, feed-forward net.

    x = decoder + Dropout(SelfAttention(LayerNorm(decoder))), causal
    y = x + Dropout(CrossAttention(LayerNorm(x), encoder))
    output = y + Dropout(FeedForward(LayerNorm(y)))

    Masking: position t sees positions 0 … t of `decoder` and all of `encoder`, except padding. The
    values in padding never matter. Explicit masks replace implicit Keras masks. The output keeps
    the decoder's mask. Where CoDA centres, the cross-attention takes means over each query's own
    row (`center_per_query`), so an output never depends on later positions.

    `start_cache` and `step` compute one position at a time. At real positions, the outputs equal
    those of one call on the whole sequence without dropout.

    Args:
        intermediate_dim: positive integer, inner width of the feed-forward net.
        num_heads: positive integer, number of attention heads. None if `attention` is a layer.
        attention: name of a mechanism or an unbuilt layer, as for `TransformerEncoder`. The block
            makes both of its attentions from it.
        attention_options: dict of further constructor arguments for a named attention.
        key_dim: head size. Defaults to width / num_heads.
        dropout: rate in [0, 1). Defaults to 0.
        activation: activation of the feed-forward net. Defaults to "relu".
        layer_norm_epsilon: added to the variance. Defaults to 1e-6.
        kernel_initializer: for all kernels. Defaults to "glorot_uniform".
        **kwargs: `name`, `dtype`, `trainable`.

    Call arguments:
        decoder: (B, T, D), the sequence so far.
        encoder: (B, S, E), the encoder's outputs.
        decoder_mask: optional boolean or 0/1 integer (B, T), True = a real position.
        encoder_mask: mask of `encoder`, (B, S).
        training: whether dropout is on.
        return_attention_scores: whether to return the weights of the cross-attention,
            (B, N, T, S), too.

    Returns:
        (B, T, D); with `return_attention_scores`, a tuple of that and the weights.

    Raises:
        ValueError: an argument is out of range, the heads do not divide the width, the inputs are
            not of rank 3, or a mask holds floats.

    Example:
    >>> block = TransformerDecoder(intermediate_dim=64, num_heads=2)
    >>> block(keras.ops.ones((1, 3, 16)), keras.ops.ones((1, 5, 8))).shape == (1, 3, 16)
    True

    Reference: Vaswani et al. 2017, "Attention Is All You Need", section 3.1; pre-norm as in
    Tensor2Tensor.
    """

    def build(
        self, decoder_shape: tuple[int | None, ...], encoder_shape: tuple[int | None, ...]
    ) -> None:
        """Makes both attentions with their norms, and the feed-forward net."""
        check_sequence(decoder_shape, "decoder")
        check_sequence(encoder_shape, "encoder")
        self.self_attention_norm, self.self_attention, self.self_attention_dropout = (
            self._make_attention_sublayer("self_attention", decoder_shape, decoder_shape)
        )
        self.cross_attention_norm, self.cross_attention, self.cross_attention_dropout = (
            self._make_attention_sublayer(
                "cross_attention", decoder_shape, encoder_shape, is_cross=True
            )
        )
        self.feed_forward.build(decoder_shape)

    def call(
        self,
        decoder: Tensor,
        encoder: Tensor,
        decoder_mask: Tensor | None = None,
        encoder_mask: Tensor | None = None,
        training: bool | None = None,
        return_attention_scores: bool = False,
    ) -> Any:
        """Applies the block; see the class."""
        decoder_mask = sequence_mask(decoder_mask, "decoder_mask")
        encoder_mask = sequence_mask(encoder_mask, "encoder_mask")
        # These new tensors carry no implicit mask: the attentions use only the masks given below.
        decoder, encoder = zero_padding(decoder, decoder_mask), zero_padding(encoder, encoder_mask)
        x = self.self_attention_norm(decoder)
        x = self.self_attention(
            x,
            x,
            query_mask=decoder_mask,
            value_mask=decoder_mask,
            use_causal_mask=True,
            training=training,
        )
        decoder = decoder + self.self_attention_dropout(x, training=training)  # (B, T, D)
        x = self.cross_attention_norm(decoder)
        # (B, T, D) attends to (B, S, E): gives (B, T, D), and scores (B, N, T, S).
        x = self.cross_attention(
            x,
            encoder,
            query_mask=decoder_mask,
            value_mask=encoder_mask,
            training=training,
            return_attention_scores=return_attention_scores,
        )
        x, *scores = x if return_attention_scores else (x,)
        decoder = decoder + self.cross_attention_dropout(x, training=training)
        output = self.feed_forward(decoder, mask=decoder_mask, training=training)
        return (output, *scores) if scores else output

    def start_cache(
        self, encoder: Tensor, length: Any, encoder_mask: Tensor | None = None
    ) -> dict[str, Any]:
        """Makes the cache with which `step` computes up to `length` positions.

        The layer must be built. Every tensor of the cache has the batch first.

        Args:
            encoder: (B, S, E), the encoder's outputs.
            length: integer, the largest number of positions.
            encoder_mask: optional (B, S), True = a real position.
        """
        width = self.self_attention_norm.gamma.shape[0]
        queries = ops.zeros((ops.shape(encoder)[0], length, width), dtype=self.compute_dtype)
        encoder = ops.cast(
            zero_padding(encoder, sequence_mask(encoder_mask, "encoder_mask")), self.compute_dtype
        )
        return {
            "self_attention": start_attention_cache(self.self_attention, queries),
            "cross_attention": start_attention_cache(self.cross_attention, queries, encoder),
        }

    def step(
        self,
        decoder: Tensor,
        index: Any,
        cache: dict[str, Any],
        decoder_mask: Tensor | None = None,
        encoder_mask: Tensor | None = None,
    ) -> tuple[Tensor, dict[str, Any]]:
        """Computes the output at one position, without dropout.

        Args:
            decoder: (B, 1, D), the input at position `index`.
            index: scalar integer, counted from 0; all earlier positions must have been given.
            cache: from `start_cache` or the previous step.
            decoder_mask: optional (B, length), True = a real position; used up to `index`.
            encoder_mask: optional (B, S), True = a real position.

        Returns:
            (B, 1, D) and the cache for the next step.
        """
        decoder_mask = sequence_mask(decoder_mask, "decoder_mask")
        encoder_mask = sequence_mask(encoder_mask, "encoder_mask")
        real = None if decoder_mask is None else ops.take(decoder_mask, [index], axis=1)  # (B, 1)
        decoder = ops.cast(zero_padding(decoder, real), self.compute_dtype)
        x, self_cache = attend_from_cache(
            self.self_attention,
            self.self_attention_norm(decoder),
            index,
            cache["self_attention"],
            decoder_mask,
            is_causal=True,
        )
        decoder = decoder + x
        x, cross_cache = attend_from_cache(
            self.cross_attention,
            self.cross_attention_norm(decoder),
            index,
            cache["cross_attention"],
            encoder_mask,
        )
        output = self.feed_forward(decoder + x, training=False)
        return output, {"self_attention": self_cache, "cross_attention": cross_cache}

    def compute_output_spec(
        self,
        decoder: Tensor,
        encoder: Tensor,
        decoder_mask: Tensor | None = None,
        encoder_mask: Tensor | None = None,
        training: bool | None = None,
        return_attention_scores: bool = False,
    ) -> Any:
        """Returns the symbolic output (B, T, D) and, if asked for, scores (B, N, T, S)."""
        check_mask(decoder_mask, "decoder_mask")
        check_mask(encoder_mask, "encoder_mask")
        output = keras.KerasTensor(
            self.compute_output_shape(decoder.shape, encoder.shape), dtype=self.compute_dtype
        )
        if not return_attention_scores:
            return output
        return output, self.cross_attention.compute_output_spec(
            decoder, encoder, return_attention_scores=True
        )[1]

    def compute_output_shape(
        self, decoder_shape: tuple[int | None, ...], encoder_shape: tuple[int | None, ...]
    ) -> tuple[int | None, ...]:
        """Returns the shape of `decoder`."""
        return tuple(decoder_shape)
