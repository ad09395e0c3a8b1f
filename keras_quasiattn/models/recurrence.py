"""Masks for recurrent layers."""

from typing import Any

from keras import ops

Tensor = Any


def readable(mask: Tensor) -> Tensor:
    """`mask` (B, T), and the first position of every row, since cuDNN refuses a row that has none.

    What is read there must be left out afterwards.

    >>> readable(np.array([[True, False], [False, False]])).numpy().tolist()
    [[True, False], [True, False]]
    """
    first = ops.equal(ops.cumsum(ops.ones_like(mask, dtype="int32"), axis=1), 1)
    return ops.logical_or(mask, first)
