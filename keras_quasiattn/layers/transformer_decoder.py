"""A Transformer decoder block with any attention."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import keras
from keras import ops

from keras_quasiattn.attention.cache import (
    attend_from_cache,
    read_into_cache,
    start_attention_cache,
)
from keras_quasiattn.core.arguments import call_arguments, check, check_sequence
from keras_quasiattn.core.masks import (
    Mask,
    as_boolean_mask,
    check_attention_mask,
    check_sequence_mask,
    combine_masks,
    finite_positions,
    sequence_mask,
    zero_padding,
)
from keras_quasiattn.layers.transformer_block import (
    Shape,
    TransformerBlock,
    call_attention,
    scores_shape,
    scores_spec,
)

Tensor = Any


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class TransformerDecoder(TransformerBlock):
    """Attend to the past and to any encoder, then apply a feed-forward network: one block.

    x = decoder + Dropout(SelfAttention(LayerNorm(decoder))), causal
    y = x + Dropout(CrossAttention(LayerNorm(x), encoder))
    output = y + Dropout(FeedForward(LayerNorm(y)))

    Without `encoder` there is no cross-attention, and y = x: a block of a decoder-only model. The
    first call or `build` decides whether a block has cross-attention, and saving preserves this.
    With `normalize_first=False` each half is LayerNorm(x + Dropout(Half(x))) instead.

    Masking: position t sees positions 0 … t of `decoder` and all of `encoder`, except padding,
    whose values never matter. Explicit masks replace implicit Keras masks. The attention masks hide
    further pairs. The output keeps the decoder's mask. If CoDA subtracts means, each query takes
    them over its own row, so outputs never depend on later positions: in self-attention while it is
    causal, in cross-attention through `center_per_query`.

    `start_cache` and `step` compute one position at a time, and `prefill` the first positions in
    one call. At real positions, the outputs equal those of one causal call on the whole sequence
    without dropout and attention masks.

    Args:
        intermediate_dim: positive integer, inner width of the feed-forward net.
        num_heads: positive integer, number of attention heads. None if `attention` is a layer.
        attention: name of an attention or an unbuilt layer, as for `TransformerEncoder`. Defaults
            to "coda".
        attention_options: dict of further constructor arguments for a named attention.
        key_dim: head size. Defaults to width / num_heads.
        dropout: rate in [0, 1). Defaults to 0.
        activation: activation of the feed-forward net. Defaults to "relu".
        layer_norm_epsilon: number added to the variance. Defaults to 1e-6.
        kernel_initializer: initializer of all kernels. Defaults to "glorot_uniform".
        normalize_first: True for pre-norm (the default), False for post-norm.

    Call arguments:
        decoder: (B, T, D), the sequence so far.
        encoder: (B, S, E), the encoder's outputs; None in a block without cross-attention.
        decoder_mask, encoder_mask: boolean (B, T) and (B, S), True = real.
        training: whether to apply dropout.
        return_attention_scores: also return the weights: those of the cross-attention,
            (B, N, T, S), if any, then those of the self-attention, (B, N, T, T).
        decoder_attention_mask: boolean (B, T, T), (T, T) or (B, N, T, T), True = the query of the
            row attends to the key of the column.
        encoder_attention_mask: the same for the cross-attention, with S columns.
        use_causal_mask: False lets the self-attention see later positions too. Defaults to True.

    Returns:
        (B, T, D); with `return_attention_scores`, a tuple of that and the weights.

    Raises:
        ValueError: an argument is out of range, the heads do not divide the width, the inputs are
            not of rank 3, a mask holds floats or has the wrong shape, or `encoder` is given to a
            block that was built without one, or left out of one that was built with it.

    Example:
    >>> block = TransformerDecoder(intermediate_dim=64, num_heads=2)
    >>> block(keras.ops.ones((1, 3, 16)), keras.ops.ones((1, 5, 8))).shape == (1, 3, 16)
    True
    >>> decoder_only = TransformerDecoder(intermediate_dim=64, num_heads=2)
    >>> decoder_only(keras.ops.ones((1, 3, 16))).shape == (1, 3, 16)
    True

    Source: Vaswani et al. 2017, "Attention Is All You Need", section 3.1 (post-norm); pre-norm
    as in Tensor2Tensor. Without an encoder: Liu et al. 2018, "Generating Wikipedia by Summarizing
    Long Sequences", section 4.2.
    """

    def build(self, decoder_shape: Shape, encoder_shape: Shape | None = None) -> None:
        """Create the attentions with their norms, and the feed-forward network."""
        check_sequence(decoder_shape, "decoder")
        made = self._make_attention_sublayer("self_attention", decoder_shape, decoder_shape)
        self.self_attention_norm, self.self_attention, self.self_attention_dropout = made
        self._has_cross_attention = encoder_shape is not None
        if encoder_shape is not None:
            check_sequence(encoder_shape, "encoder")
            made = self._make_attention_sublayer(
                "cross_attention", decoder_shape, encoder_shape, is_cross=True
            )
            self.cross_attention_norm, self.cross_attention, self.cross_attention_dropout = made
        self.feed_forward.build(decoder_shape)

    def call(
        self,
        decoder: Tensor,
        encoder: Tensor | None = None,
        decoder_mask: Tensor | None = None,
        encoder_mask: Tensor | None = None,
        training: bool | None = None,
        return_attention_scores: bool = False,
        decoder_attention_mask: Tensor | None = None,
        encoder_attention_mask: Tensor | None = None,
        use_causal_mask: bool = True,
    ) -> Any:
        """Apply the block; see the class."""
        given = (decoder_attention_mask, encoder_attention_mask)
        pair_masks = self._check_call(decoder, encoder, (decoder_mask, encoder_mask), given)
        decoder_mask = sequence_mask(decoder_mask, "decoder_mask", decoder, reads_implicit=True)
        encoder_mask = as_boolean_mask(encoder_mask, "encoder_mask")
        # These new tensors carry no implicit masks: the attentions use only those passed below.
        x = zero_padding(ops.cast(decoder, self.compute_dtype), decoder_mask)  # from integers
        attend = partial(
            call_attention,
            query_mask=decoder_mask,
            return_attention_scores=return_attention_scores,
            training=training,
        )
        to_past = partial(
            attend,
            value_mask=decoder_mask,
            attention_mask=pair_masks[0],
            use_causal_mask=use_causal_mask,
        )
        hides = self._hides(self.self_attention, use_causal_mask, *pair_masks)
        x, scores = self._apply_attention_sublayer("self_attention", x, to_past, training, hides)
        if encoder is not None:
            encoder = zero_padding(ops.cast(encoder, self.compute_dtype), encoder_mask)
            # (B, T, D) attends to (B, S, E): gives (B, T, D), and scores (B, N, T, S).
            across = partial(
                attend, value=encoder, value_mask=encoder_mask, attention_mask=pair_masks[1]
            )
            if hides:  # NaN rows stay NaN without a query and do not affect gradients
                rows = combine_masks(decoder_mask, finite_positions(x))
                across = partial(across, query_mask=rows)
            x, further = self._apply_attention_sublayer(
                "cross_attention", x, across, training, hides
            )
            scores = further + scores
        output = self.feed_forward(x, mask=decoder_mask, training=training, isolate_rows=hides)
        return (output, *scores) if scores else output

    def start_cache(
        self,
        encoder: Tensor | None,
        length: Any,
        encoder_mask: Tensor | None = None,
        batch_size: Any = None,
    ) -> dict[str, Any]:
        """Create the cache with which `step` computes up to `length` positions; see `call`.

        The layer must be built. The first axis of every tensor in the cache is the batch, whose
        size is needed if `encoder` is None.
        """
        self._check_encoder(encoder, encoder_mask=encoder_mask)
        encoder_mask = sequence_mask(encoder_mask, "encoder_mask", encoder)
        if encoder is not None:
            batch_size = ops.shape(encoder)[0]
        expected = "given for a block without an encoder"
        check(batch_size is not None, batch_size, "batch_size", expected)
        width = self.self_attention_norm.gamma.shape[0]
        queries = ops.zeros((batch_size, length, width), dtype=self.compute_dtype)
        cache = {"self_attention": start_attention_cache(self.self_attention, queries)}
        if encoder is not None:
            encoder = ops.cast(zero_padding(encoder, encoder_mask), self.compute_dtype)
            cache["cross_attention"] = start_attention_cache(self.cross_attention, queries, encoder)
        return cache

    def step(
        self,
        decoder: Tensor,
        index: Any,
        cache: dict[str, Any],
        decoder_mask: Tensor | None = None,
        encoder_mask: Tensor | None = None,
    ) -> tuple[Tensor, dict[str, Any]]:
        """Compute the output (B, 1, D) at one position without dropout, and the cache for the next.

        Args:
            decoder: (B, 1, D), the input at position `index`.
            index: scalar integer, counted from 0; all earlier positions must have been given.
            cache: from `start_cache` or the previous step.
            decoder_mask: boolean (B, length), True = real; used up to `index`.
            encoder_mask: boolean (B, S), True = real.
        """
        decoder_mask = sequence_mask(decoder_mask, "decoder_mask", None)
        real = None if decoder_mask is None else ops.take(decoder_mask, [index], axis=1)  # (B, 1)
        attend = partial(attend_from_cache, index=index)
        return self._attend_with_cache(attend, decoder, real, cache, decoder_mask, encoder_mask)

    def prefill(
        self,
        decoder: Tensor,
        cache: dict[str, Any],
        decoder_mask: Tensor | None = None,
        encoder_mask: Tensor | None = None,
    ) -> tuple[Tensor, dict[str, Any]]:
        """Compute the outputs (B, P, D) at positions 0 … P − 1 in one call, without dropout.

        The cache that is returned serves a step at position P or any earlier one. Masks are (B, P)
        and (B, S).
        """
        mask = sequence_mask(decoder_mask, "decoder_mask", decoder)
        return self._attend_with_cache(read_into_cache, decoder, mask, cache, mask, encoder_mask)

    def _attend_with_cache(
        self,
        attend: Callable[..., tuple[Tensor, Any]],
        decoder: Tensor,
        real: Tensor | None,
        cache: dict[str, Any],
        decoder_mask: Mask,
        encoder_mask: Mask,
    ) -> tuple[Tensor, dict[str, Any]]:
        masks = {"self_attention": decoder_mask}
        if self._has_cross_attention:
            masks["cross_attention"] = sequence_mask(encoder_mask, "encoder_mask", None)
        x = ops.cast(zero_padding(decoder, real), self.compute_dtype)
        new_cache = {}
        for name, mask in masks.items():
            of_layer = partial(
                attend, cache=cache[name], mask=mask, is_causal=name == "self_attention"
            )
            x, new_cache[name] = self._apply_attention_sublayer(name, x, of_layer, training=False)
        return self.feed_forward(x, training=False), new_cache

    def _check_encoder(self, encoder: Tensor | None, **masks: Mask) -> None:
        """Raise a `ValueError` unless `encoder` is what the block was built for."""
        if encoder is None:
            given = [name for name, mask in masks.items() if mask is not None]
            if given:
                raise ValueError(f"`{given[0]}` needs `encoder`. Received: encoder=None")
            needed = self.built and self._has_cross_attention
            expected = "given, because the block was built with one"
            check(not needed, encoder, "encoder", expected)
        elif self.built and not self._has_cross_attention:
            raise ValueError(
                "`encoder` must be None, because the block was built without one. "
                f"Received: encoder.shape={tuple(encoder.shape)}"
            )

    def _check_call(
        self, decoder: Tensor, encoder: Tensor | None, masks: Sequence[Any], pairs: Sequence[Any]
    ) -> list[Mask]:
        """Return both attention masks as boolean tensors; raise a `ValueError` for conflicts."""
        self._check_encoder(encoder, encoder_mask=masks[1], encoder_attention_mask=pairs[1])
        names, layers = ("decoder", "encoder"), ("self_attention", "cross_attention")
        found = []
        for name, x, mask, pair, layer in zip(
            names, (decoder, encoder), masks, pairs, layers, strict=True
        ):
            if x is not None:
                check_sequence_mask(mask, f"{name}_mask", x, f"`{name}_attention_mask`")
                shape = scores_shape(getattr(self, layer, None), decoder, x)
                check_attention_mask(pair, f"{name}_attention_mask", shape, f"`{name}_mask`")
            found.append(as_boolean_mask(pair, f"{name}_attention_mask"))
        return found

    def compute_output_spec(self, *args: Any, **kwargs: Any) -> Any:
        """Return the symbolic output (B, T, D) and, if requested, scores (B, N, T, T or S)."""
        given = call_arguments(self, args, kwargs)
        decoder, encoder = given["decoder"], given["encoder"]
        masks = (given["decoder_mask"], given["encoder_mask"])
        pairs = (given["decoder_attention_mask"], given["encoder_attention_mask"])
        self._check_call(decoder, encoder, masks, pairs)
        output = keras.KerasTensor(tuple(decoder.shape), dtype=self.compute_dtype)
        if not given["return_attention_scores"]:
            return output
        scores = [scores_spec(self.self_attention, decoder, decoder)]
        if encoder is not None:
            scores.insert(0, scores_spec(self.cross_attention, decoder, encoder))
        return (output, *scores)
