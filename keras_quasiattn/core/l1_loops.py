"""Weighted L1 distances and their gradients in compiled loops."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import njit

from keras_quasiattn.core.compiled.arrays import Array, Arrays, read_only, whole
from keras_quasiattn.core.compiled.call import Call, Shape, Tensor
from keras_quasiattn.core.compiled.elementary import LOOP
from keras_quasiattn.core.compiled.threads import Spread
from keras_quasiattn.core.compiled.vectors import LANES, ROWS, add_signs, distances, load
from keras_quasiattn.core.l1 import blockwise_distances

_COLUMNS = 256  # of a block, so that its arrays fit the second-level cache


@njit(**LOOP)
def _scale(x: Any, weights: Any, shift: Any, out: Any, positive: Any) -> None:
    """Write |weight| · (x − shift) to `out` (B, F, L or more), the features with weights < 0 last.

    Write the number of the others to `positive` (B,).
    """
    for b in range(x.shape[0]):
        place = 0
        for negative in (False, True):
            for f in range(x.shape[2]):
                if (weights[b, 0, f] < 0) == negative:
                    size, offset = abs(weights[b, 0, f]), shift[b, 0, f]
                    for i in range(x.shape[1]):
                        out[b, place, i] = size * (x[b, i, f] - offset)
                    place += 1
            if not negative:
                positive[b] = place


@njit(**LOOP)
def _forward(x: Any, y: Any, positive: Any, first: int, count: int, sums: Any, out: Any) -> None:
    """Write the distances of share `first` of `count` shares of the blocks of rows.

    x and y are from `_scale`, padded. The distance over the first `positive[b]` features is added,
    the distance over the others subtracted.
    """
    blocks = x.shape[2] // ROWS
    items = x.shape[0] * blocks
    for item in range(items * first // count, items * (first + 1) // count):
        b, t = item // blocks, item % blocks * ROWS
        rows, split = x[b, :, t : t + ROWS].T, positive[b]
        for s in range(0, y.shape[2], _COLUMNS):
            columns = y[b, :, s : s + _COLUMNS]
            plus, minus = sums[0, :, : columns.shape[1]], sums[1, :, : columns.shape[1]]
            distances(rows[:, :split], columns[:split], plus)
            distances(rows[:, split:], columns[split:], minus)
            for r in range(min(ROWS, out.shape[1] - t)):
                for i in range(min(columns.shape[1], out.shape[2] - s)):
                    out[b, t + r, s + i] = plus[r, i] - minus[r, i]


@njit(**LOOP)
def _backward(
    x: Any, y: Any, g: Any, first: int, count: int, factors: Any, of_x: Any, of_y: Any
) -> None:
    """For one share, write Σ_s g·sign(x − y) to `of_x` and add −Σ_t of the terms to `of_y`.

    x, y and both results are padded, (B, T or S, F).
    """
    blocks = x.shape[1] // ROWS
    items = x.shape[0] * blocks
    for item in range(items * first // count, items * (first + 1) // count):
        b, t = item // blocks, item % blocks * ROWS
        load(g[b], t, factors)
        for s in range(0, y.shape[1], _COLUMNS):
            columns, added = y[b, s : s + _COLUMNS], of_y[b, s : s + _COLUMNS]
            rows, written = x[b, t : t + ROWS], of_x[b, t : t + ROWS]
            add_signs(factors[:, s : s + _COLUMNS], rows, columns, written, added)


_LOOPS: Any = (_scale, _forward, _backward)  # compiled functions are untyped


def _padded(x: Array, rows: int) -> Array:
    """Return x (B, L, F) with zeros up to a multiple of `rows` and whole vectors of features."""
    batch, length, features = x.shape
    padded = np.zeros((batch, whole(length, rows), whole(features, LANES)), x.dtype)
    padded[:, :length, :features] = x
    return read_only(padded)


def _shift(y: Array) -> Array:
    """Return the mean position of y, or 0: a large common offset would lose precision."""
    mean = y.sum(1, keepdims=True) / max(1, y.shape[1])
    return np.where(np.isfinite(mean), mean, y.dtype.type(0))


@dataclasses.dataclass(frozen=True)
class DistanceCall(Call):
    """Distances of x (B, T, F) and y (B, S, F), with weights (B, 1, F)."""

    names = ("x", "y", "weights")

    def output_shapes(self, shapes: Sequence[Shape]) -> list[tuple[Any, ...]]:
        """Return (B, T, S)."""
        return [(*shapes[0][:2], shapes[1][1])]

    def forward(self, arrays: Arrays, out: Arrays, spread: Spread) -> None:
        """Write Σ_f weights[f] · |x[t, f] − y[s, f]| to `out`."""
        x, y, weights = arrays
        (batch, target, features), source = x.shape, y.shape[1]
        rows = np.zeros((batch, features, whole(target, ROWS)), x.dtype)
        columns = np.zeros((batch, features, whole(source, LANES)), x.dtype)
        shift, positive = read_only(_shift(y)), np.zeros(batch, np.int64)
        for side, scaled in ((x, rows), (y, columns)):
            _LOOPS[0](read_only(side), read_only(weights), shift, scaled, positive)

        def share(first: int, count: int) -> None:
            sums = np.zeros((2, ROWS, _COLUMNS), x.dtype)
            _LOOPS[1](rows, columns, positive, first, count, sums, out[0])

        spread(share, batch * rows.shape[2] // ROWS)

    def backward(self, upstreams: Arrays, arrays: Arrays, out: Arrays, spread: Spread) -> None:
        """Write the gradients of x, y and the weights to `out`.

        The weights' gradient follows from the others:
        Σ_ts g·|x − y| = Σ_t x·(Σ_s g·sign(x − y)) + Σ_s y·(Σ_t g·sign(y − x)).
        """
        x, y, weights = arrays
        rows, columns = _padded(x, ROWS), _padded(y, LANES)
        of_rows, parts = np.zeros_like(rows), {}

        def share(first: int, count: int) -> None:
            factors, own = np.zeros((ROWS, columns.shape[1]), x.dtype), np.zeros_like(columns)
            _LOOPS[2](rows, columns, read_only(upstreams[0]), first, count, factors, of_rows, own)
            parts[first] = own

        spread(share, rows.shape[0] * rows.shape[1] // ROWS)
        of_x = of_rows[:, : x.shape[1], : x.shape[2]]
        # In the order of the shares, not in which they end: the sum depends on it.
        ordered = [parts[first] for first in sorted(parts)]
        of_y = np.sum(ordered, axis=0)[:, : y.shape[1], : y.shape[2]]
        shift = _shift(y)
        of_weights = ((x - shift) * of_x).sum(1, keepdims=True)
        of_weights += ((y - shift) * of_y).sum(1, keepdims=True)
        for target, one in zip(out, (of_x * weights, of_y * weights, of_weights), strict=True):
            target[...] = one

    def with_tensors(self, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
        """Return the distances by operations on tensors."""
        return [blockwise_distances(*tensors)]
