"""Boolean masks, True = attend.

Masked weights are set to exactly 0; a mask is never added to scores as a large negative number.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_quasiattn.core.tensors import (
    as_dtype,
    as_floats,
    broadcasts,
    check_broadcast,
    check_features,
    check_lengths,
    check_rank,
    holding,
)

Tensor = Any
Mask = Tensor | None  # boolean, True = attend
PAIRS = "`attention_mask` of a multi-head layer or a Transformer block"
# About the lowest float32, not −inf: a row without keys stays finite until it is zeroed.
LOWEST = -3.4e38
# Which rows are no padding, and the mask (..., T, S) of self-attention.
_rows: ContextVar[tuple[Mask, Mask]] = ContextVar("attention_rows", default=(None, None))
# Which sequences may still become the answer of a search, (B,).
_sequences: ContextVar[Mask] = ContextVar("attention_sequences", default=None)


def check_mask(mask: Tensor | None, name: str) -> None:
    """Raise a `ValueError` naming `name` unless `mask` is None, boolean, or a 0/1 integer tensor.

    A float mask is refused because two opposite conventions exist for it (1 keeps, or -1e9
    removes), and a wrong guess would silently invert the mask.
    """
    if mask is None:
        return
    dtype = getattr(mask, "dtype", None) or ops.convert_to_tensor(mask).dtype
    dtype = keras.backend.standardize_dtype(dtype)
    if dtype != "bool" and "int" not in dtype:
        raise ValueError(
            f"`{name}` must be boolean, or integer with 0 and 1 (1 or True = attend). "
            f"Received a mask of dtype {dtype}."
        )


def as_boolean_mask(
    mask: Tensor | None, name: str, shape: Sequence[Any] | None = None, of: str = "the scores"
) -> Tensor | None:
    """Return `mask` (boolean, or integers 0 and 1) as a boolean tensor; None stays None.

    A float mask raises a `ValueError` naming `name`, and so does one that does not broadcast to
    `shape`, the shape of `of`, if it is given.
    """
    check_mask(mask, name)
    if mask is None:
        return None
    mask = ops.cast(mask, "bool")
    if shape is not None:
        check_broadcast(mask, shape, name, of)
    return mask


def combine_masks(*masks: Tensor | None) -> Tensor | None:
    """Return the logical AND of all masks that are not None; None if all are. Shapes broadcast."""
    combined = None
    for mask in masks:
        if mask is not None:
            combined = mask if combined is None else ops.logical_and(combined, mask)
    return combined


def causal_mask(target_length: Any, source_length: Any) -> Tensor:
    """Return the (T, S) mask in which query i attends to keys 0 … i."""
    rows, columns = _positions(target_length, source_length)
    return ops.less_equal(columns, rows)


def sliding_window_mask(target_length: Any, source_length: Any, window: int) -> Tensor:
    """Return the (T, S) mask in which queries see keys at most `window - 1` positions away."""
    rows, columns = _positions(target_length, source_length)
    return ops.less(ops.abs(rows - columns), window)


def _positions(target_length: Any, source_length: Any) -> tuple[Tensor, Tensor]:
    # (T, 1) and (1, S).
    rows = ops.expand_dims(ops.arange(target_length, dtype="int32"), 1)
    return rows, ops.expand_dims(ops.arange(source_length, dtype="int32"), 0)


def pair_mask(mask_a: Tensor | None, mask_b: Tensor | None) -> Tensor | None:
    """Return the mask of pairs of real positions, from masks (..., T) and (..., S), or None."""
    rows = None if mask_a is None else ops.expand_dims(mask_a, -1)
    columns = None if mask_b is None else ops.expand_dims(mask_b, -2)
    return combine_masks(rows, columns)


def real_rows(rows: Mask, own_mask: Mask = None) -> AbstractContextManager[None]:
    """Say in the `with` block which rows are no padding; `rows` broadcasts to (..., T, S).

    `own_mask` (..., T, S) is the mask of self-attention, None otherwise. A position that no query
    sees there is padding, even if no mask hides it as a query, as in KerasHub's models.
    """
    return holding(_rows, (rows, own_mask))


def real_sequences(sequences: Tensor) -> AbstractContextManager[None]:
    """Say in the `with` block which sequences (B,) a search needs; rows of others are padding."""
    return holding(_sequences, sequences)


def without_padded_rows(mask: Mask, pairs: Tensor) -> Mask:
    """Hide rows of padding, if known, in the mask of those `pairs` that statistics count.

    `pairs` is a matrix (B, ..., T, S), or (B, T) where a sequence is pooled.
    """
    rows, own_mask = _rows.get()
    if own_mask is not None:
        rows = combine_masks(rows, ops.expand_dims(ops.any(own_mask, axis=-2), -1))
    sequences = _sequences.get()
    if sequences is not None:
        sequences = ops.reshape(sequences, (-1,) + (1,) * (len(pairs.shape) - 1))
    return combine_masks(mask, rows, sequences)


def zero_masked(x: Tensor, mask: Tensor | None) -> Tensor:
    """Return `x` with exact zeros where `mask` is False, even in place of NaN and infinity."""
    return x if mask is None else ops.where(mask, x, ops.cast(0, x.dtype))


def zero_padding(x: Tensor, mask: Tensor | None) -> Tensor:
    """Return `x` (B, L, ..., D) with exact zeros at positions where `mask` (B, L, ...) is False."""
    return x if mask is None else zero_masked(x, ops.expand_dims(mask, -1))


def visible_count(x: Tensor, mask: Tensor | None, axis: int | tuple[int, ...] = -1) -> Tensor:
    """Return how many elements of `x` the mask shows over `axis`, which is kept; at least 1."""
    count = ops.sum(zero_masked(ops.ones_like(x), mask), axis=axis, keepdims=True)
    return ops.where(count > 0, count, ops.ones_like(count))


def masked_mean(x: Tensor, mask: Tensor | None, axis: int | tuple[int, ...]) -> Tensor:
    """Return the mean over `axis` of the elements of `x` where `mask` is True; 0 for none.

    Reduced axes stay, with length 1. `mask` broadcasts to the shape of `x`.
    """
    # Not ops.mean: on JAX and PyTorch it rounds float64 to float32.
    return ops.sum(zero_masked(x, mask), axis=axis, keepdims=True) / visible_count(x, mask, axis)


def largest(x: Tensor, axis: int | tuple[int, ...], lowest: float) -> Tensor:
    """Return the maximum of `x` over `axis`; `lowest` where the axis is empty.

    `keras.ops.max` fails on empty tensors on TensorFlow, and returns another shape on PyTorch.
    """
    if all(isinstance(length, int) and length for length in x.shape):
        return ops.max(x, axis=axis)
    rank = len(x.shape)
    axes = {one % rank for one in ((axis,) if isinstance(axis, int) else axis)}
    # Pad every axis with one `lowest`, because none may be empty, and cut the padding off again.
    found = ops.max(ops.pad(x, [(0, 1)] * rank, constant_values=lowest), axis=tuple(axes))
    return found[tuple(slice(None, -1) for one in range(rank) if one not in axes)]


def lower_masked(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Return `scores` with `LOWEST` where `mask` is False."""
    return scores if mask is None else ops.where(mask, scores, ops.cast(LOWEST, scores.dtype))


def masked_softmax(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Return the softmax over the last axis of `scores` where `mask` is True, and 0 elsewhere."""
    scores = lower_masked(scores, mask)
    length = scores.shape[-1]  # not an integer where PyTorch traces a graph for other lengths
    if isinstance(length, int) and length == 1:  # Keras' softmax would warn
        return zero_masked(ops.exp(scores - scores), mask)
    return zero_masked(ops.softmax(scores, axis=-1), mask)


def sides(
    name: str, x: Tensor, mask_name: str, mask: Tensor | None, **roles: Tensor | None
) -> list[Any]:
    """Return the boolean `mask` (..., L), and `x` (..., L, D) and the roles, 0 where masked.

    There is one tensor (..., L, ·) per role; one that is None uses `x`. Integers become floats. The
    names are for error messages.
    """
    x = as_floats(x)
    check_rank(x, name)
    mask = as_boolean_mask(mask, mask_name, x.shape[:-1], f"the positions of `{name}`")
    tensors = [x]
    for role, other in roles.items():
        tensors.append(x if other is None else as_floats(other))
        check_lengths(x, tensors[-1], name, role)
    return [mask, *(zero_padding(tensor, mask) for tensor in tensors)]


def prepare_cross_attention(
    u: Tensor, v: Tensor, values: Tensor, mask_v: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Check the arguments of an op that attends from `u` to `v`.

    Returns u, v and values with zeros at masked positions, and the mask as (..., 1, S). Raises a
    `ValueError` for a float mask, or sizes that do not match.
    """
    u = as_floats(u)
    mask_v, v, values = sides("v", v, "mask_v", mask_v, values=values)
    check_features(u, v, "u", "v")
    return u, v, values, pair_mask(None, mask_v)


def finite_positions(x: Tensor) -> Tensor:
    """Return True at the positions (B, L, ...) of `x` (B, L, ..., D) without NaN and infinity.

    Uses only operations that every runtime has.
    """
    dtype = keras.backend.standardize_dtype(x.dtype)
    if "float" not in dtype:  # Keras does not cast integers
        return ops.ones(ops.shape(x)[:-1], dtype="bool")
    highest = {"float16": 65504.0, "float64": 1.79e308}.get(dtype, 3.38e38)
    return ops.all(ops.abs(x) <= as_dtype(highest, dtype), axis=-1)


def make_unknown(x: Tensor, rows: Tensor) -> Tensor:
    """Return `x` (B, T, ..., D) with NaN in the chosen rows, boolean (B, T, ...).

    NaN is added, not selected, so gradients pass through: a loss that depends on an unknown row has
    a gradient of NaN, and any other loss has the gradient of the known rows.
    """
    rows = ops.expand_dims(rows, tuple(range(len(rows.shape), len(x.shape))))
    # Not a constant, because JAX with `jax_debug_nans` stops at any NaN, used or not.
    known, unknown = (ops.cast(value, x.dtype) for value in (0.0, -1.0))
    return x + ops.sqrt(ops.where(rows, unknown, known))


def on_finite_rows(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Apply a row-wise `function` to `x` (B, T, D); NaN or infinity in a row gives NaN there alone.

    A plain call would also turn the gradients of the weights of `function` into NaN, even for a
    loss that does not depend on that row.
    """
    finite = finite_positions(x)
    return make_unknown(function(zero_padding(x, finite)), ops.logical_not(finite))


def check_sequence_mask(mask: Any, name: str, x: Tensor | None, pairs: str = PAIRS) -> None:
    """Raise a `ValueError` naming `name` unless `mask` says which positions are real.

    It is None, or boolean (or 0/1 integer) with the axes of `x` (B, L, ..., features) before the
    last, or (B, L) without `x`; an axis may have length 1. `pairs` names the argument for a mask of
    pairs.
    """
    check_mask(mask, name)
    if mask is None:
        return
    shape = tuple(np.shape(mask))
    expected = (None, None) if x is None else tuple(x.shape[:-1])
    if len(shape) != len(expected) or not broadcasts(shape, expected):
        here = "" if x is None else f", here {expected}"
        raise ValueError(
            f"`{name}` must have shape (batch, length){here}: which positions are real. Which "
            f"pairs of positions attend belongs in {pairs}. Received: {name}.shape={shape}"
        )


def sequence_mask(
    mask: Tensor | None,
    name: str,
    x: Tensor | None,
    pairs: str = PAIRS,
    *,
    reads_implicit: bool = False,
) -> Tensor | None:
    """Return `mask` as a boolean tensor, or None, after `check_sequence_mask`.

    With `reads_implicit`, None stands for the mask that Keras attached to `x`, in calls to which
    Keras does not pass it.
    """
    if mask is None and reads_implicit:
        # Not an attribute where JAX traces. Keras has no public way to read it.
        mask = keras.src.backend.get_keras_mask(x)
    check_sequence_mask(mask, name, x, pairs)
    mask = as_boolean_mask(mask, name)
    return mask if x is None else for_all_positions(mask, x)


def for_all_positions(mask: Tensor | None, x: Tensor) -> Tensor | None:
    """Return the mask of `x` (B, L, ..., D), with an axis of length 1 repeated to that of `x`."""
    shape = tuple(x.shape[:-1])
    if mask is None or (
        len(mask.shape) == len(shape)
        and all(n != 1 or n == of for n, of in zip(mask.shape, shape, strict=True))
    ):
        return mask
    return ops.broadcast_to(mask, ops.shape(x)[:-1])


def check_attention_mask(
    mask: Any, name: str, scores_shape: tuple[Any, ...], positions: str, axes: int = 1
) -> None:
    """Raise a `ValueError` naming `name` unless `mask` is a mask of query-key pairs.

    It is None, or boolean (or 0/1 integer), has at least the axes T… and S…, `axes` each, and
    broadcasts to `scores_shape` (B, ..., N, T…, S…). `positions` names the arguments for masks of
    positions.
    """
    check_mask(mask, name)
    if mask is None:
        return
    shape, count = tuple(np.shape(mask)), 2 * axes
    leading = len(shape) - count
    expected = (*scores_shape[: max(leading, 0)], *scores_shape[-count:])
    if not 0 <= leading <= len(scores_shape) - count or not broadcasts(shape, expected):
        raise ValueError(
            f"`{name}` must have shape (T, S), (batch, T, S) or (batch, heads, T, S) with (T, S) = "
            f"{tuple(scores_shape[-count:])} and scores of {tuple(scores_shape)}. Which positions "
            f"are real belongs in {positions}. Received: {name}.shape={shape}"
        )
