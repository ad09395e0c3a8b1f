"""Sparse weights and their gradients in compiled loops: each row stays in the first-level cache."""

from typing import Any

import numpy as np
from numba import njit

from keras_quasiattn.core.compiled.elementary import FAST, LOOP, raised

_MOST_STEPS = 60  # of Newton's method; some ten are usual


@njit(fastmath=FAST, **LOOP)
def _copy_visible(scores: Any, seen: Any, x: Any) -> None:
    """Write the scores to x, and −∞ in place of the masked ones."""
    hidden = x.dtype.type(-np.inf)
    for i in range(x.size):
        x[i] = scores[i]
    for i in range(seen.size):
        x[i] = x[i] if seen[i] else hidden


@njit(fastmath=FAST, **LOOP)
def _highest(x: Any) -> Any:
    """Return the highest entry of x, which is overwritten; with a NaN, it may be any entry.

    Halves are compared entry by entry: Numba would not vectorize one maximum of all entries.
    """
    size = x.size
    while size > 1:
        half = (size + 1) // 2
        for i in range(size - half):
            x[i] = x[i] if x[i] > x[half + i] else x[half + i]
        size = half
    return x[0]


@njit(fastmath=FAST, **LOOP)
def _shift(scores: Any, seen: Any, highest: Any, factor: Any, x: Any) -> tuple[Any, Any]:
    """Write `below_highest` to x; return the sum and the number of its visible entries."""
    zero, least = x.dtype.type(0), x.dtype.type(-2)
    total, hidden = zero, zero
    for i in range(x.size):
        entry = factor * (scores[i] - highest)
        x[i] = least if entry < least else entry
    for i in range(seen.size):
        hidden += zero if seen[i] else least
        x[i] = x[i] if seen[i] else least
    for i in range(x.size):
        total += x[i]
    return total - hidden, x.dtype.type(x.size) + hidden / x.dtype.type(2)


@njit(fastmath=FAST, **LOOP)
def _sums(x: Any, threshold: Any, power: Any) -> tuple[Any, Any]:
    """Return Σ b^power and Σ b^(power − 1) over the entries with b = x − threshold above 0."""
    zero, one = x.dtype.type(0), x.dtype.type(1)
    total, slope = zero, zero
    if power == 1:
        count = np.int32(0)  # summed as an integer, and vectorized
        for i in range(x.size):
            base = x[i] - threshold
            total += max(base, zero)
            count += np.int32(base > zero)
        slope += x.dtype.type(count)
    elif power == 2:
        for i in range(x.size):
            base = max(x[i] - threshold, zero)
            total += base * base
            slope += base
    else:
        for i in range(x.size):
            base = x[i] - threshold
            less = raised(base if base > zero else one, power - one)
            less = less if base > zero else zero
            total += less * base
            slope += less
    return total, slope


@njit(**LOOP)
def _newton(x: Any, mean: Any, count: Any, power: Any) -> Any:
    """Return τ for a power from 1 on, from below, by Newton's method."""
    one, enough = x.dtype.type(1), x.dtype.type(64 * np.finfo(x.dtype).eps)
    # The weights of n entries sum to n·(mean − τ)^power or more, by their convexity.
    threshold = max(-one, mean - count ** (-one / power))
    for _ in range(_MOST_STEPS):
        total, slope = _sums(x, threshold, power)
        if slope <= 0:
            break
        excess = total - one
        threshold += excess / (power * slope)
        if abs(excess) < enough:
            break
    return threshold


@njit(**LOOP)
def _bisected(x: Any, power: Any, steps: int) -> Any:
    """Return τ for any power, bisecting on the highest weight (−τ)^power."""
    one, highest, step = x.dtype.type(1), x.dtype.type(0), x.dtype.type(0.5)
    for _ in range(steps):
        middle = highest + step
        if _sums(x, -raised(middle, one / power), power)[0] < one:
            highest = middle
        step *= x.dtype.type(0.5)
    return -(highest ** (one / power))


@njit(fastmath=FAST, **LOOP)
def _weigh(x: Any, threshold: Any, power: Any) -> Any:
    """Turn x into the weights; return their sum."""
    zero, one = x.dtype.type(0), x.dtype.type(1)
    total = zero
    if power == 1:
        for i in range(x.size):
            x[i] = max(x[i] - threshold, zero)
    elif power == 2:
        for i in range(x.size):
            base = max(x[i] - threshold, zero)
            x[i] = base * base
    else:
        for i in range(x.size):
            base = x[i] - threshold
            weight = raised(base if base > zero else one, power)
            x[i] = weight if base > zero else zero
    for i in range(x.size):
        total += x[i]
    return total


@njit(**LOOP)
def _row(scores: Any, seen: Any, power: Any, steps: int, x: Any) -> None:
    """Write the weights of one row to x."""
    _copy_visible(scores, seen, x)
    total, count = _shift(scores, seen, _highest(x), x.dtype.type(1) / power, x)
    if total != total or count == 0:
        for i in range(x.size):
            x[i] = total if not seen.size or seen[i] else 0
    elif steps:
        total = _weigh(x, _bisected(x, power, steps), power)
        if total > 0:
            for i in range(x.size):
                x[i] /= total
    else:
        _weigh(x, _newton(x, total / count, count, power), power)


@njit(fastmath=FAST, **LOOP)
def _differentiate(weights: Any, upstream: Any, power: Any) -> None:
    """Turn the weights of a row into its gradient: q·(g − Σqg/Σq), q = weight^(1 − 1/power)."""
    zero, one = weights.dtype.type(0), weights.dtype.type(1)
    total, product = zero, zero
    for i in range(weights.size):
        weight = weights[i]
        if power == 2:
            slope = np.sqrt(weight)
        else:
            slope = one if power == 1 else raised(weight if weight > 0 else one, one - one / power)
            slope = weight if weight == 0 or weight != weight else slope
        weights[i] = slope
        total += slope
        product += slope * upstream[i] if slope != 0 else zero
    mean = product / total if total != 0 else zero
    for i in range(weights.size):
        weights[i] = weights[i] * (upstream[i] - mean) if weights[i] != 0 else zero


@njit(**LOOP)
def write_rows(
    first: int,
    count: int,
    scores: Any,
    mask: Any,
    index: Any,
    power: Any,
    steps: int,
    upstream: Any,
    out: Any,
) -> None:
    """Write the weights, or with `upstream` the gradients, of share `first` of `count` shares."""
    batch, target, _ = scores.shape
    rows = batch * target
    for row in range(rows * first // count, rows * (first + 1) // count):
        b, t = row // target, row % target
        seen = mask[index[b], t if mask.shape[1] > 1 else 0] if index.size else mask[0, 0]
        _row(scores[b, t], seen, power, steps, out[b, t])
        if upstream.size:
            _differentiate(out[b, t], upstream[b, t], power)
