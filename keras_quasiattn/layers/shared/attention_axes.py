"""The axes of attention, and moves between (B, T, ..., N, H) and (B, ..., N, T, H)."""

import math
from typing import Any

from keras import ops

from keras_quasiattn.ops.masking import causal_mask, combine_masks, largest
from keras_quasiattn.ops.score_bias import as_score_bias

Tensor = Any
Shape = tuple[int | None, ...]


class AttentionAxes:
    """The axes of projected tensors (B, d1, …, dn, N, H) that attention runs over.

    The other d are called free. Ops see the attended axes flattened to one: length T for queries, S
    for keys.

    Args:
        rank: rank of a projected tensor, which is the rank of the layer's input plus one.
        axes: attended axes, counted as in `keras.layers.MultiHeadAttention`: indices into the
            input, negative ones from its end; None = all axes between batch and features.

    Raises:
        ValueError: an axis is not between batch and features.
    """

    def __init__(self, rank: int, axes: tuple[int, ...] | None) -> None:
        sequence_axes = tuple(range(1, rank - 2))
        chosen = (
            sequence_axes if axes is None else tuple(a if a >= 0 else rank - 1 + a for a in axes)
        )
        if not chosen or any(axis not in sequence_axes for axis in chosen):
            raise ValueError(
                "`attention_axes` must lie between the batch axis and the feature axis of the "
                f"input, so be one or more of {sequence_axes}. Received: attention_axes={axes}"
            )
        self.axes = chosen
        self.free_axes = tuple(axis for axis in sequence_axes if axis not in chosen)
        self._head_axis = rank - 2

    def require_single(self, name: str) -> None:
        """Raises a `ValueError` that names the option if attention runs over several axes."""
        if len(self.axes) != 1:
            raise ValueError(
                f"`{name}` requires a single attention axis, because positions on several axes "
                f"have no order. Received: attention_axes={self.axes}"
            )

    def lengths(self, x: Tensor) -> tuple[Any, ...]:
        """Returns the lengths of the attended axes of `x` (B, d1, …, dn, ...)."""
        shape = ops.shape(x)
        return tuple(shape[axis] for axis in self.axes)

    def heads_first(self, x: Tensor) -> Tensor:
        """(B, d1, …, dn, N, H) → (B, free…, N, T, H)."""
        lengths = self.lengths(x)
        # (B, free…, N, T…, H)
        x = ops.transpose(x, (0, *self.free_axes, self._head_axis, *self.axes, self._head_axis + 1))
        return self._flatten(x, len(self.free_axes) + 2, lengths)

    def heads_last(self, x: Tensor, lengths: tuple[Any, ...]) -> Tensor:
        """(B, free…, N, T, H) → (B, d1, …, dn, N, H); `lengths` are those of the attended axes."""
        start = len(self.free_axes) + 2
        if len(lengths) > 1:
            shape = ops.shape(x)
            x = ops.reshape(x, (*shape[:start], *lengths, shape[-1]))  # (B, free…, N, T…, H)
        # `now` lists the axes of x in their present order; the transpose sorts them.
        now = (0, *self.free_axes, self._head_axis, *self.axes, self._head_axis + 1)
        return ops.transpose(x, tuple(now.index(axis) for axis in range(len(now))))

    def target_mask(self, mask: Tensor | None) -> Tensor | None:
        """Moves a mask of queries: (B, d1, …, dn) → (B, free…, 1, T, 1)."""
        return None if mask is None else ops.expand_dims(self._positions(mask), (-3, -1))

    def source_mask(self, mask: Tensor | None) -> Tensor | None:
        """Moves a mask of keys: (B, d1, …, dn) → (B, free…, 1, 1, S)."""
        return None if mask is None else ops.expand_dims(self._positions(mask), (-3, -2))

    def pair_mask(
        self, mask: Tensor | None, target_lengths: tuple[Any, ...], source_lengths: tuple[Any, ...]
    ) -> Tensor | None:
        """Flattens an attention mask: (…, [N,] T…, S…) → (…, N or 1, T, S).

        As in Keras, missing axes are inserted before T.
        """
        if mask is None:
            return None
        count = len(self.axes)
        while len(mask.shape) < len(self.free_axes) + 2 + 2 * count:
            mask = ops.expand_dims(mask, len(mask.shape) - 2 * count)
        if count == 1:
            return mask
        # Broadcast axes of length 1 first, since the reshape needs full lengths.
        mask = ops.logical_and(mask, ops.ones((*target_lengths, *source_lengths), dtype="bool"))
        return self._flatten_pairs(mask, target_lengths, source_lengths)

    def pair_bias(
        self, bias: Tensor | None, query: Tensor, value: Tensor, num_heads: int
    ) -> Tensor | None:
        """Flattens a bias that broadcasts to the scores: (…, T…, S…) → (B, free…, N, T, S).

        Axes that it lacks or shares get length 1.

        Raises a `ValueError` naming `attention_bias` if it holds no floats or does not broadcast.
        """
        shape = self.scores_shape(query.shape, value.shape, num_heads)
        bias = as_score_bias(bias, shape, "attention_bias")
        if bias is None:
            return None
        bias = ops.expand_dims(bias, tuple(range(len(shape) - len(bias.shape))))
        if len(self.axes) == 1:
            return bias
        targets, sources = self.lengths(query), self.lengths(value)
        bias = bias + ops.zeros((*targets, *sources), dtype=bias.dtype)  # broadcasts, as above
        return self._flatten_pairs(bias, targets, sources)

    def rows_with_output(
        self,
        query: Tensor,
        value: Tensor,
        query_mask: Tensor | None,
        mask: Tensor | None,
        is_causal: bool,
    ) -> Tensor | None:
        """Returns which queries are real and attend to something, (B, d1, …, dn); None = all.

        Args:
            query: (B, d1, …, dn, features).
            value: the same, with the lengths of the keys.
            query_mask: boolean (B, d1, …, dn), or None.
            mask: boolean, broadcasts to (B, free…, N, T, S), or None.
            is_causal: query i attends to keys 0 … i only.
        """
        rows = query_mask
        if mask is not None:
            rows = combine_masks(rows, self.rows_with_a_key(mask, self.lengths(query), is_causal))
        if not all(value.shape[axis] for axis in self.axes):  # no keys, or an unknown length
            rows = combine_masks(
                rows, ops.full(ops.shape(query)[:-1], ops.size(value) > 0, dtype="bool")
            )
        return rows

    def rows_with_a_key(self, mask: Tensor, lengths: tuple[Any, ...], is_causal: bool) -> Tensor:
        """Returns which queries may attend to a key in any head, (B, d1, …, dn).

        `mask` is (B, free…, N, T, S), where axes may have length 1.
        """
        length = _product(lengths)
        if is_causal and mask.shape[-2] != 1:
            mask = combine_masks(mask, causal_mask(length, ops.shape(mask)[-1]))
        if is_causal and mask.shape[-2] == 1:
            # Compares the first visible key of each row with the row's own index. Combining a
            # causal mask with a (1, S) mask instead would take T·S memory.
            never = 2**31 - 1
            keys = ops.where(mask, ops.arange(ops.shape(mask)[-1], dtype="int32"), never)
            first = -largest(-keys, axis=(-3, -1), lowest=-never)  # (B, free…, 1)
            rows = ops.less_equal(first, ops.arange(length, dtype="int32"))
        else:
            rows = ops.any(mask, axis=(-3, -1))  # (B, free…, T or 1)
        if len(lengths) > 1:
            rows = ops.logical_and(rows, ops.ones((length,), dtype="bool"))
            rows = ops.reshape(rows, (*ops.shape(rows)[:-1], *lengths))  # (B, free…, T…)
        now = (0, *self.free_axes, *self.axes)
        return ops.transpose(rows, tuple(now.index(axis) for axis in range(len(now))))

    def scores_shape(self, query_shape: Shape, value_shape: Shape, num_heads: int) -> Shape:
        """The shape of the scores: (B, free…, N, T…, S…)."""
        free = (query_shape[axis] for axis in (0, *self.free_axes))
        targets = (query_shape[axis] for axis in self.axes)
        return (*free, num_heads, *targets, *(value_shape[axis] for axis in self.axes))

    def unflatten_scores(
        self, scores: Tensor, target_lengths: tuple[Any, ...], source_lengths: tuple[Any, ...]
    ) -> Tensor:
        """(B, free…, N, T, S) → (B, free…, N, T…, S…)."""
        if len(self.axes) == 1:
            return scores
        return ops.reshape(scores, (*ops.shape(scores)[:-2], *target_lengths, *source_lengths))

    def _flatten_pairs(
        self, x: Tensor, targets: tuple[Any, ...], sources: tuple[Any, ...]
    ) -> Tensor:
        leading = ops.shape(x)[: -2 * len(self.axes)]
        return ops.reshape(x, (*leading, _product(targets), _product(sources)))

    def _positions(self, mask: Tensor) -> Tensor:
        lengths = self.lengths(mask)
        mask = ops.transpose(mask, (0, *self.free_axes, *self.axes))  # (B, free…, T…)
        return self._flatten(mask, len(self.free_axes) + 1, lengths)

    def _flatten(self, x: Tensor, start: int, lengths: tuple[Any, ...]) -> Tensor:
        if len(lengths) == 1:
            return x
        shape = ops.shape(x)
        return ops.reshape(x, (*shape[:start], _product(lengths), *shape[start + len(lengths) :]))


def _product(lengths: tuple[Any, ...]) -> Any:
    return math.prod(lengths)
