"""Decodes spans from the logits of starts and ends."""

from typing import Any

from keras import ops

from keras_quasiattn.core.masks import largest

Tensor = Any


def best_spans(start: Tensor, end: Tensor, longest: int = 16) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the best span of each row: the largest start_i + end_j with i ≤ j < i + longest.

    Of spans with equal scores, the one that begins first wins, then the shortest. Memory is
    P·longest per row.

    Args:
        start: scores (B, P) of beginning at a position; P is at least 1.
        end: scores (B, P) of ending at a position.
        longest: maximum number of positions in a span, at least 1.

    Returns:
        (first, last, score): int32 (B,), the positions of the span's first and last token, and the
        score (B,).

    Raises:
        ValueError: if `longest` is below 1.

    Example:
    >>> import numpy as np
    >>> start, end = np.array([[0.0, 5.0, 1.0, 0.0]]), np.array([[9.0, 0.0, 1.0, 2.0]])
    >>> [np.asarray(x).tolist() for x in best_spans(start, end, longest=2)]
    [[0], [0], [9.0]]
    """
    if longest < 1:
        raise ValueError(f"`longest` must be at least 1. Received: longest={longest}")
    start, end = ops.convert_to_tensor(start), ops.convert_to_tensor(end)
    # (P, longest): the positions where a span from each start may end.
    positions = ops.arange(ops.shape(start)[1], dtype="int32")[:, None] + ops.arange(
        longest, dtype="int32"
    )
    lowest = -3.4e38 / 4  # a quarter of the float32 range, so that a sum with it stays finite
    padded = ops.pad(end, ((0, 0), (0, longest - 1)), constant_values=lowest)
    ends = ops.take(padded, positions, axis=1)  # (B, P, longest)
    totals = start + largest(ends, -1, lowest)  # (B, P)
    first = ops.cast(ops.argmax(totals, axis=-1), "int32")  # (B,)
    lengths = ops.cast(ops.argmax(ends, axis=-1), "int32")  # (B, P): best length − 1 of each start
    last = first + ops.squeeze(ops.take_along_axis(lengths, first[:, None], axis=1), 1)
    return first, last, largest(totals, -1, lowest)
