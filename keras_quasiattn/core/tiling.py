"""Helpers for tiled computations: cut a long axis into tiles, merge leading axes into one."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import ops

from keras_quasiattn.core.backend import in_turn, put_row, runs_op_by_op

Tensor = Any

KEYS_PER_TILE = 32  # columns of M computed at a time; fastest under XLA
KEYS_PER_TILE_OP_BY_OP = 128  # the most columns, where every operation is a separate kernel call
MAX_QUERIES_FOR_WIDE_TILES = (
    2048  # with more queries than this, wide tiles take too much memory for the time they save
)


def keys_per_tile(target: Any, source: Any) -> Any:
    """Return how many keys a tile should have; a tensor where lengths are unknown until run time.

    Where no compiler fuses operations (`runs_op_by_op`), tiles have nearly equal multiples of 8
    keys, which leaves little padding to compute.
    """
    if not runs_op_by_op():
        return KEYS_PER_TILE
    if isinstance(target, int):
        wide = target <= MAX_QUERIES_FOR_WIDE_TILES
        most = KEYS_PER_TILE_OP_BY_OP if wide else KEYS_PER_TILE
    else:
        wide = target <= MAX_QUERIES_FOR_WIDE_TILES
        most = ops.where(wide, KEYS_PER_TILE_OP_BY_OP, KEYS_PER_TILE)
    return 8 * tile_count(tile_count(source, tile_count(source, most)), 8)


def sizes_are_symbolic(*tensors: Tensor) -> bool:
    """Return whether a size is symbolic, as when JAX traces a shape that Keras does not know."""
    return any(not isinstance(size, int | None) for x in tensors for size in x.shape)


def at_least_one(number: Any) -> Any:
    """Return the larger of 1 and an integer, which may be a tensor."""
    return max(1, number) if isinstance(number, int) else ops.maximum(1, number)


def tile_count(length: Any, size: Any) -> Any:
    """Return how many tiles of `size` cover `length`, at least 1: a loop always runs once."""
    return at_least_one((length + size - 1) // size)


def pad_axis(x: Tensor, axis: int, length: Any) -> Tensor:
    """Return `x` padded at the end of `axis` to `length`, with zeros or False."""
    shape = list(ops.shape(x))
    missing = length - shape[axis]
    if isinstance(missing, int) and missing == 0:
        return x
    shape[axis] = missing
    return ops.concatenate([x, ops.zeros(shape, dtype=x.dtype)], axis=axis)


def take(x: Tensor, index: Any, size: int) -> Tensor:
    """Return tile number `index`, `size` positions of the middle axis of x (B, L, D)."""
    shape = ops.shape(x)
    return ops.slice(x, (0, index * size, 0), (shape[0], size, shape[2]))


def take_columns(x: Tensor, index: Any, size: int) -> Tensor:
    """Return tile number `index`, `size` positions of the last axis of x (B, T, S)."""
    batch, rows, _ = ops.shape(x)
    return ops.slice(x, (0, 0, index * size), (batch, rows, size))


def empty_tiles(count: Any, shape: tuple[Any, Any, Any], dtype: Any) -> Tensor:
    """Return a buffer for `count` tiles of one shape: `put` writes a tile, `joined` assembles them.

    Each tile is one flat row, written by its index on the first axis. To write into the middle of
    an axis, Keras on TensorFlow would need an XLA operation, which a stock server may lack. A row
    has one element more than its tile, because TensorFlow cannot write an empty row.
    """
    return ops.zeros((count, math.prod(shape) + 1), dtype=dtype)


def put(tiles: Tensor, index: Any, tile: Tensor) -> Tensor:
    """Return the buffer `tiles` with tile number `index` replaced by `tile`."""
    flat = ops.concatenate([ops.reshape(tile, (-1,)), ops.zeros((1,), dtype=tile.dtype)], axis=0)
    return put_row(tiles, index, flat)


def joined(tiles: Tensor, shape: tuple[Any, Any, Any], axis: int) -> Tensor:
    """Concatenate tiles of `shape` (B, rows, columns) along `axis`, 1 or 2."""
    count, (batch, rows, columns) = ops.shape(tiles)[0], shape
    tiles = ops.reshape(tiles[:, :-1], (count, *shape))  # (count, B, rows, columns)
    if axis == 1:
        return ops.reshape(ops.transpose(tiles, (1, 0, 2, 3)), (batch, count * rows, columns))
    return ops.reshape(ops.transpose(tiles, (1, 2, 0, 3)), (batch, rows, count * columns))


def broadcast_leading(tensors: list[Tensor]) -> tuple[Any, ...]:
    """Return the leading lengths to which all tensors (..., rows, columns) broadcast."""
    rank = max(len(tensor.shape) - 2 for tensor in tensors)
    lead: list[Any] = []
    for axis in range(-rank - 2, -2):
        with_axis = [tensor for tensor in tensors if len(tensor.shape) >= -axis]
        # Use a length known at tracing, or else one that is not 1 at run time: it may be 0.
        known = {tensor.shape[axis] for tensor in with_axis} - {None, 1}
        if known:
            lead.append(known.pop())
            continue
        length: Any = 1
        unknown = [ops.shape(tensor)[axis] for tensor in with_axis if tensor.shape[axis] is None]
        for candidate in unknown:
            length = (
                candidate
                if isinstance(length, int)
                else ops.where(ops.equal(length, 1), candidate, length)
            )
        lead.append(length)
    return tuple(lead)


def flatten_leading(x: Tensor, lead: tuple[Any, ...], rows: Any, columns: Any) -> Tensor:
    """Return `x`, which broadcasts to (*lead, rows, columns), as (B, rows, columns)."""
    shape = (*lead, rows, columns)
    # A length known only at run time is a tensor and must not be compared.
    if not all(isinstance(length, int) for length in shape) or tuple(x.shape) != shape:
        x = ops.broadcast_to(x, shape)
    if len(lead) == 1:
        return x
    return ops.reshape(x, (math.prod(lead), rows, columns))


Call = Callable[..., tuple[Tensor, ...]]


def rematerialize_in_turn(
    calls: Sequence[Call], inputs: Sequence[Sequence[Tensor]]
) -> list[tuple[Tensor, ...]]:
    """Run calls so that only one has its intermediate tensors in memory, forward and backward.

    Each call keeps only its inputs and outputs; its gradient recomputes the rest. A TensorFlow
    graph would recompute all calls at once, so there each call waits for the previous one. Weights
    and masks that a call closes over are not among its floating-point `inputs`.
    """
    return in_turn([keras.remat(call) for call in calls], inputs)
