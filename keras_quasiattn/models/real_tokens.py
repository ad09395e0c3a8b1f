"""Which token ids are not padding."""

from typing import Any

from keras import ops

Tensor = Any
PADDING_ID = 0


def is_real(ids: Tensor) -> Tensor:
    """Returns the boolean mask of the ids that are not padding."""
    return ops.not_equal(ids, PADDING_ID)


def mark_real(mask: Tensor, tokens: Tensor, index: Any) -> Tensor:
    """Returns `mask` (B, L) with whether `tokens` (B, 1) are real at position `index`."""
    here = ops.equal(ops.arange(ops.shape(mask)[1], dtype="int32"), ops.cast(index, "int32"))
    return ops.where(here, is_real(tokens), mask)


def first_real(tokens: Tensor, count: Any) -> Tensor:
    """Returns whether `tokens` (B, P) are real and among the first `count` columns."""
    columns = ops.arange(ops.shape(tokens)[1], dtype="int32")
    return ops.logical_and(is_real(tokens), columns < ops.cast(count, "int32"))
