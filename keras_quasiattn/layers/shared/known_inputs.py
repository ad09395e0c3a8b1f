"""The inputs of a multi-head layer, with zeros where they are masked, NaN or infinite."""

from typing import Any

from keras import ops

from keras_quasiattn.layers.shared.attention_axes import AttentionAxes
from keras_quasiattn.ops.finite import finite_positions
from keras_quasiattn.ops.masking import combine_masks, zero_padding
from keras_quasiattn.ops.score_bias import with_hidden_pairs

Tensor = Any


class KnownInputs:
    """Inputs with zeros at masked positions and, once cleared, in place of NaN and infinity.

    They are cleared before the projections, so that neither the sums nor the gradient of a kernel,
    in which a position that nobody sees has the factor 0, hold 0 · NaN. Where every row sees all
    that is not masked, NaN makes all of them NaN by itself, and looking for it would cost time.

    Args:
        query: (B, T, ..., features).
        value: (B, S, ..., features).
        key: the same, or None: the keys are projected from `value`.
        query_mask: boolean (B, T, ...), or None.
        source_mask: boolean (B, S, ...), or None.
        look: whether to look for NaN and infinity.

    Attributes:
        query, value, key: the tensors with zeros.
        finite: where the query, and where value and key, were finite: (B, T, ...) and (B, S, ...);
            None if nobody has looked.
    """

    def __init__(
        self,
        query: Tensor,
        value: Tensor,
        key: Tensor | None,
        query_mask: Tensor | None,
        source_mask: Tensor | None,
        *,
        look: bool,
    ) -> None:
        self._masks = (query_mask, source_mask)
        self.finite: tuple[Tensor, Tensor] | None = None
        queries, sources = query_mask, source_mask
        if look:
            of_query = finite_positions(query)
            of_sources = of_query if value is query else finite_positions(value)
            if key is not None and key is not value:
                of_sources = ops.logical_and(of_sources, finite_positions(key))
            self.finite = (of_query, of_sources)
            queries, sources = map(combine_masks, self._masks, self.finite)
        self.query = self.value = zero_padding(query, queries)
        if value is not query or source_mask is not query_mask or key is not None:
            self.value = zero_padding(value, sources)
        self.key = None if key is None else zero_padding(key, sources)

    @classmethod
    def unless_all_is_seen(
        cls,
        bias: Tensor,
        query: Tensor,
        value: Tensor,
        key: Tensor | None,
        *masks: Tensor | None,
    ) -> "KnownInputs":
        """Looks only if the bias hides pairs; otherwise all positions count as finite."""

        def look(pairs: Tensor | None) -> list[Tensor]:
            inputs = cls(query, value, key, *masks, look=pairs is not None)
            finite = inputs.finite or [
                ops.ones(ops.shape(x)[:-1], dtype="bool") for x in (query, value)
            ]
            return [inputs.query, inputs.value, *finite, *([] if key is None else [inputs.key])]

        inputs = cls(query, value, key, *masks, look=False)
        inputs.query, inputs.value, of_query, of_sources, *keys = with_hidden_pairs(
            look, None, bias
        )
        inputs.finite = (of_query, of_sources)
        inputs.key = keys[0] if keys else None
        return inputs

    def project(self, layer: Any) -> list[Tensor]:
        """Returns heads of queries, keys and values; zeros where a projection has overflowed."""
        heads = [layer.project_query(self.query), *layer.project(self.value, self.key)]
        # Only these are narrow enough for finite numbers to become infinite in a projection.
        if self.finite is None or layer.compute_dtype != "float16":
            return heads
        query, key, value = (ops.all(finite_positions(x), axis=-1) for x in heads)
        fits = (query, ops.logical_and(key, value))
        self.finite = tuple(map(ops.logical_and, self.finite, fits))
        return [
            zero_padding(x, ops.expand_dims(finite, -1))
            for x, finite in zip(heads, (fits[0], fits[1], fits[1]), strict=True)
        ]

    def rows(
        self, axes: AttentionAxes, pairs: Tensor | None, is_causal: bool, bias: Tensor | None
    ) -> tuple[Tensor | None, Tensor | None]:
        """Returns which queries are unknown, and which are real and see anything, (B, T, ...).

        A query is unknown if it was not finite, or sees a source that was not. None instead: none
        is unknown, or all see something.

        Args:
            axes: those of the layer.
            pairs: boolean (B, ..., N, T, S), or None.
            is_causal: query i sees keys 0 … i only.
            bias: floats that broadcast as `pairs`, or None; −∞ hides a pair.
        """
        query_mask, source_mask = self._masks
        keys = axes.source_mask(source_mask)

        def rows_with_output(pairs: Tensor | None) -> Tensor | None:
            mask = combine_masks(keys, pairs)
            return axes.rows_with_output(self.query, self.value, query_mask, mask, is_causal)

        if self.finite is None:
            return None, rows_with_output(pairs)
        queries, sources = map(ops.logical_not, self.finite)
        lost = axes.source_mask(combine_masks(sources, source_mask))

        def rows(pairs: Tensor | None) -> tuple[Tensor, Tensor]:
            # Of any head; a mask of each head with the lost keys of each example is larger.
            seen = None if pairs is None else ops.any(pairs, axis=-3, keepdims=True)
            hit = axes.rows_with_a_key(
                combine_masks(lost, seen), axes.lengths(self.query), is_causal
            )
            all_rows = ops.ones_like(queries)
            return ops.logical_or(queries, hit), combine_masks(rows_with_output(pairs), all_rows)

        return with_hidden_pairs(rows, pairs, bias)

    def anywhere(self, axes: AttentionAxes, rows: Tensor | None) -> Tensor | None:
        """Returns all queries for which one of the rows beside them is chosen, (B, T, ...)."""
        if rows is None:
            return None
        chosen = combine_masks(rows, self._masks[0])
        return ops.logical_or(rows, ops.any(chosen, axis=axes.axes, keepdims=True))
