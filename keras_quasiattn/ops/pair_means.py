"""Means of E and N over all pairs of real positions in closed form: no (T, S) tensor is made."""

from typing import Any

from keras import ops

from keras_quasiattn.ops.masking import zero_padding
from keras_quasiattn.ops.precision import compute_dtype

Tensor = Any


def mean_dot_product(
    x: Tensor, y: Tensor, mask_x: Tensor | None = None, mask_y: Tensor | None = None
) -> Tensor:
    """Mean of x[t]·y[s] over all real pairs: (Σ_t x[t]) · (Σ_s y[s]) / (number of pairs).

    Args:
        x: (..., T, D).
        y: (..., S, D).
        mask_x: optional boolean (..., T), True = real.
        mask_y: optional boolean (..., S), True = real.

    Returns:
        (..., 1, 1), at least float32; 0 where there is no pair.
    """
    dtype = compute_dtype(x, y)
    mean_x = _mean_position(ops.cast(x, dtype), mask_x)
    mean_y = _mean_position(ops.cast(y, dtype), mask_y)
    return ops.sum(mean_x * mean_y, axis=-1, keepdims=True)


def mean_l1(x: Tensor, y: Tensor, mask_x: Tensor | None = None, mask_y: Tensor | None = None) -> Tensor:
    """Mean of ‖x[t] − y[s]‖₁ over all real pairs, from one sort of each feature: O((T + S)·log(T + S)·D).

    Σ_ts |x_t − y_s| = Σ_t x_t·c_t + Σ_s y_s·e_s, where c_t counts the y below x_t less the y above it (and e_s
    the x around y_s). Counts have no derivative, so the gradient is theirs too: exactly Σ_s sign(x_t − y_s),
    with 0 at ties.

    Args:
        x: (..., T, D).
        y: (..., S, D).
        mask_x: optional boolean (..., T), True = real.
        mask_y: optional boolean (..., S), True = real.

    Returns:
        (..., 1, 1), at least float32; 0 where there is no pair.
    """
    dtype = compute_dtype(x, y)
    x, y = ops.cast(x, dtype), ops.cast(y, dtype)
    # Distances do not change when both are shifted; sums of large numbers that cancel would lose digits.
    shift = ops.stop_gradient(_mean_position(x, mask_x))
    x, y = zero_padding(x - shift, mask_x), zero_padding(y - shift, mask_y)
    share_x, share_y = _shares(x, mask_x), _shares(y, mask_y)
    balance_x = ops.stop_gradient(_share_below_less_above(x, y, mask_y))
    balance_y = ops.stop_gradient(_share_below_less_above(y, x, mask_x))
    total = ops.sum(x * share_x * balance_x, axis=(-2, -1), keepdims=True)
    return total + ops.sum(y * share_y * balance_y, axis=(-2, -1), keepdims=True)


def _mean_position(x: Tensor, mask: Tensor | None) -> Tensor:
    x = zero_padding(x, mask)
    return ops.sum(x * _shares(x, mask), axis=-2, keepdims=True)


def _shares(x: Tensor, mask: Tensor | None) -> Tensor:
    """What each position counts in a mean: 1 / (number of real ones), or 0. Shape (..., L, 1)."""
    real = _real(x[..., :1], mask)
    return ops.cast(real, x.dtype) / _count(real, x.dtype)


def _real(x: Tensor, mask: Tensor | None) -> Tensor:
    """1 for each number at a real position and 0 for the others, as integers."""
    ones = ops.ones_like(x, dtype="int32")
    return ones if mask is None else ones * ops.cast(ops.expand_dims(mask, -1), "int32")


def _count(real: Tensor, dtype: str) -> Tensor:
    count = ops.sum(real, axis=-2, keepdims=True)
    return ops.cast(ops.where(count > 0, count, ops.ones_like(count)), dtype)


def _share_below_less_above(x: Tensor, y: Tensor, mask_y: Tensor | None) -> Tensor:
    """For every x and feature: the share of y below it less the share above it, (..., T, D)."""
    # Counted in integers: on PyTorch `ops.cumsum` rounds float64 to float32.
    real = _real(y, mask_y)
    total = ops.sum(real, axis=-2, keepdims=True)
    # A tie counts as above in one order and as below in the other; the sum of both makes it 0.
    balance = _count_before(x, y, real, x_first=True) + _count_before(x, y, real, x_first=False) - total
    return ops.cast(balance, x.dtype) / _count(real, x.dtype)


def _count_before(x: Tensor, y: Tensor, real: Tensor, x_first: bool) -> Tensor:
    parts = [(x, ops.zeros_like(x, dtype="int32")), (y, real)]
    if not x_first:
        parts.reverse()
    values = ops.concatenate([part[0] for part in parts], axis=-2)
    counts = ops.concatenate([part[1] for part in parts], axis=-2)
    order = ops.argsort(values, axis=-2)  # stable, so equal values keep their place
    before = ops.cumsum(ops.take_along_axis(counts, order, axis=-2), axis=-2)
    back = ops.argsort(order, axis=-2)
    in_place = ops.take_along_axis(before, back, axis=-2)
    length = ops.shape(x)[-2]
    return in_place[..., :length, :] if x_first else in_place[..., ops.shape(y)[-2] :, :]
