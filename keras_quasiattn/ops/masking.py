"""Masks are booleans, True = attend; they multiply weights and never turn into large negative numbers."""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_quasiattn.ops.checks import check_features, check_lengths, check_rank

Tensor = Any


def check_mask(mask: Tensor | None, name: str) -> None:
    """Raises a `ValueError` naming `name` unless `mask` is None, boolean, or a 0/1 integer tensor.

    A float mask is refused because two opposite conventions exist for it (1 keeps, or -1e9 removes), and
    guessing wrong inverts the mask in silence.
    """
    if mask is None:
        return
    dtype = keras.backend.standardize_dtype(
        getattr(mask, "dtype", None) or ops.convert_to_tensor(mask).dtype
    )
    if dtype != "bool" and "int" not in dtype:
        raise ValueError(
            f"`{name}` must be boolean, or integer with 0 and 1 (1 or True = attend). Received a mask of dtype {dtype}."
        )


def as_boolean_mask(mask: Tensor | None, name: str) -> Tensor | None:
    """Returns `mask` as a boolean tensor (None stays None).

    Args:
        mask: None, or a boolean or 0/1 integer tensor of any shape; True or 1 = attend.
        name: the argument's name, for the error.

    Raises:
        ValueError: `mask` holds floats.
    """
    check_mask(mask, name)
    return None if mask is None else ops.cast(mask, "bool")


def combine_masks(*masks: Tensor | None) -> Tensor | None:
    """The logical AND of all masks that are not None, or None. Shapes broadcast."""
    combined = None
    for mask in masks:
        if mask is not None:
            combined = mask if combined is None else ops.logical_and(combined, mask)
    return combined


def causal_mask(target_length: Any, source_length: Any) -> Tensor:
    """The (T, S) mask in which query i sees the keys 0 … i."""
    rows, columns = _positions(target_length, source_length)
    return ops.less_equal(columns, rows)


def sliding_window_mask(target_length: Any, source_length: Any, window: int) -> Tensor:
    """The (T, S) band in which query i sees the keys at most `window - 1` positions away, on both sides."""
    rows, columns = _positions(target_length, source_length)
    return ops.less(ops.abs(rows - columns), window)


def _positions(target_length: Any, source_length: Any) -> tuple[Tensor, Tensor]:
    rows = ops.expand_dims(ops.arange(target_length, dtype="int32"), 1)
    return rows, ops.expand_dims(ops.arange(source_length, dtype="int32"), 0)


def pair_mask(mask_a: Tensor | None, mask_b: Tensor | None) -> Tensor | None:
    """The (..., T, S) mask of pairs of which both members are real, from masks (..., T) and (..., S)."""
    rows = None if mask_a is None else ops.expand_dims(mask_a, -1)
    columns = None if mask_b is None else ops.expand_dims(mask_b, -2)
    return combine_masks(rows, columns)


def zero_masked(x: Tensor, mask: Tensor | None) -> Tensor:
    """`x` with exact zeros where `mask` is False, whatever stood there (NaN and infinity too).

    Args:
        x: tensor.
        mask: boolean tensor that broadcasts to the shape of `x`, or None.
    """
    return x if mask is None else ops.where(mask, x, ops.cast(0, x.dtype))


def zero_padding(x: Tensor, mask: Tensor | None) -> Tensor:
    """`x` (B, L, ..., D) with exact zeros at the positions that `mask` (B, L, ...) marks as padding."""
    return x if mask is None else zero_masked(x, ops.expand_dims(mask, -1))


def finite_positions(x: Tensor) -> Tensor:
    """Of x (B, L, ..., D) the positions (B, L, ...) without NaN and infinity; in ops that every runtime has."""
    dtype = keras.backend.standardize_dtype(x.dtype)
    # An array, since Keras takes a Python number for float32 first.
    highest = np.array({"float16": 65504.0, "float64": 1.79e308}.get(dtype, 3.38e38))
    return ops.all(ops.abs(x) <= ops.cast(highest, dtype), axis=-1)


def masked_mean(x: Tensor, mask: Tensor | None, axis: int | tuple[int, ...]) -> Tensor:
    """Mean of `x` over `axis` and over the positions where `mask` is True; 0 where there is none.

    The axes are kept with length 1. `mask` broadcasts to the shape of `x`.
    """
    counted = ops.ones_like(x)  # not ops.mean: on JAX and PyTorch it rounds float64 to float32
    if mask is not None:
        counted = zero_masked(counted, mask)
    count = ops.sum(counted, axis=axis, keepdims=True)
    total = ops.sum(zero_masked(x, mask), axis=axis, keepdims=True)
    return total / ops.where(count > 0, count, ops.ones_like(count))


def largest(x: Tensor, axis: int | tuple[int, ...], lowest: float) -> Tensor:
    """The maximum of `x` over `axis`, and `lowest` of nothing: an empty batch or sequence has one too.

    `keras.ops.max` refuses empty tensors on TensorFlow, and gives them another shape on PyTorch.
    """
    rank = len(x.shape)
    axes = {one % rank for one in ((axis,) if isinstance(axis, int) else axis)}
    # One more of everything: of the axes that stay it is cut off again.
    found = ops.max(ops.pad(x, [(0, 1)] * rank, constant_values=lowest), axis=tuple(axes))
    return found[tuple(slice(None, -1) for one in range(rank) if one not in axes)]


def masked_softmax(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Softmax over the last axis of `scores` where `mask` is True; zeros elsewhere, and in a row without any."""
    if mask is None:
        return ops.softmax(scores, axis=-1)
    # The lowest finite number, not −inf: a row without keys stays finite, and is then cleared.
    lowest = -3.4e38
    return zero_masked(
        ops.softmax(ops.where(mask, scores, ops.cast(lowest, scores.dtype)), axis=-1), mask
    )


def sides(name: str, x: Tensor, mask: Tensor | None, **roles: Tensor | None) -> list[Tensor]:
    """One sequence in all its roles, `x` itself where a role has no tensor of its own; padding cleared."""
    x = ops.convert_to_tensor(x)
    check_rank(x, name)
    tensors = [x]
    for role, other in roles.items():
        tensors.append(x if other is None else ops.convert_to_tensor(other))
        check_lengths(x, tensors[-1], name, role)
    return [zero_padding(tensor, mask) for tensor in tensors]


def check_two(
    u: Tensor, v: Tensor, values: Tensor, mask_v: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """u, and v with its values, padding cleared, and the mask (..., 1, S); a `ValueError` if sizes do not fit."""
    mask_v = as_boolean_mask(mask_v, "mask_v")
    u = ops.convert_to_tensor(u)
    v, values = sides("v", v, mask_v, values=values)
    check_features(u, v, "u", "v")
    return u, v, values, pair_mask(None, mask_v)
