"""Attention in memory linear in the lengths: one tile of queries at a time, forward and backward.

If `Attention.rows_are_independent`, the weights of a query depend on its own scores only. The whole
(T, S) matrix is then unnecessary: each tile of queries attends to all keys, and the backward pass
recomputes the tile.
"""

import math
from collections.abc import Callable
from typing import Any

from keras import ops

from keras_quasiattn.core.backend import map_tiles, on_accelerator
from keras_quasiattn.core.masks import Mask, combine_masks
from keras_quasiattn.core.tensors import compute_dtype
from keras_quasiattn.core.tiling import at_least_one, pad_axis, tile_count

Tensor = Any
# Weights of all heads and examples together. Up to LARGE, the matrix is computed whole, which is
# faster. A tile of TILE fits the caches of a CPU; small tiles only slow an accelerator down.
LARGE, LARGE_ON_ACCELERATOR = 2**25, 2**28
TILE, TILE_ON_ACCELERATOR = 3 * 2**20, 3 * 2**24


def large(x: Tensor) -> int:
    """Return how many weights the device of `x` computes whole."""
    return LARGE_ON_ACCELERATOR if on_accelerator(x) else LARGE


def attend_by_rows(
    attend: Callable[..., Any],
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    **options: Any,
) -> Tensor:
    """Return `attend(query, key, value, mask, ...)` (..., T, V), computed by tiles of queries.

    The arguments are as for `Attention.attend`, of an attention whose rows are independent. A graph
    of unknown sizes computes the whole matrix if it turns out to be small.
    """

    def whole() -> Tensor:
        return attend(query, key, value, mask, **options)

    def tiled() -> Tensor:
        return _tiled(attend, query, key, value, mask, **options)

    sizes = (*ops.shape(query)[:-1], ops.shape(key)[-2])
    if all(isinstance(size, int) for size in sizes):
        return tiled()
    # As floats: the number of pairs may overflow 32-bit integers.
    pairs = math.prod(ops.cast(size, "float32") for size in sizes)
    return ops.cond(pairs > large(query), tiled, whole)


def _tiled(
    attend: Callable[..., Any],
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Mask,
    *,
    learned: dict[str, Any],
    bias: Tensor | None = None,
    is_causal: bool = False,
    **options: Any,
) -> Tensor:
    *lead, length, _ = ops.shape(query)
    source = ops.shape(key)[-2]
    tile = TILE_ON_ACCELERATOR if on_accelerator(query) else TILE
    most = at_least_one(tile // at_least_one(math.prod((*lead, source))))
    known = isinstance(most, int) and isinstance(length, int)
    rows = at_least_one(min(most, length) if known else ops.minimum(most, length))
    count = tile_count(length, rows)

    def by_tile(x: Tensor) -> Tensor:
        """Split x into tiles: (..., T, n) → (count, ..., rows, n)."""
        if x.shape[-2] is None:  # this length may turn out to be 1
            x = ops.broadcast_to(x, (*ops.shape(x)[:-2], length, ops.shape(x)[-1]))
        x = pad_axis(x, len(x.shape) - 2, count * rows)
        *leading, _, last = ops.shape(x)
        x = ops.reshape(x, (*leading, count, rows, last))
        return ops.moveaxis(x, len(leading), 0)

    def has_rows(x: Tensor | None) -> bool:
        return x is not None and x.shape[-2] != 1

    weights = {f"learned {name}": x for name, x in learned.items() if hasattr(x, "dtype")}
    tiles = {"query": by_tile(query)}
    shared = {"key": key, "value": value}
    if has_rows(bias):
        tiles["bias"] = by_tile(bias)
    elif bias is not None:
        shared["bias"] = bias
    # Tiles read them as they are, but add their gradients to these in at least float32.
    dtypes = {name: x.dtype for name, x in shared.items()}
    shared = {name: ops.cast(x, compute_dtype(x)) for name, x in shared.items()} | weights
    masks = by_tile(mask) if has_rows(mask) else mask

    def of_tile(index: Any, **given: Tensor) -> Tensor:
        visible = ops.take(masks, index, axis=0) if has_rows(mask) else masks
        first = index * rows
        if is_causal:
            position = first + ops.expand_dims(ops.arange(rows, dtype="int32"), 1)
            seen = ops.less_equal(ops.arange(source, dtype="int32"), position)
            visible = combine_masks(visible, seen)
        found = {name: given.get(f"learned {name}", x) for name, x in learned.items()}
        own = {
            name: ops.cast(x, dtypes.get(name, x.dtype))
            for name, x in given.items()
            if name not in weights
        }
        if options.get("dropout"):
            own["first_row"] = first
        output = attend(mask=visible, learned=found, **own, **options)
        return ops.cast(output, shared["value"].dtype)  # (..., rows, V)

    output = map_tiles(of_tile, count, tiles, shared)  # (count, ..., rows, V)
    output = ops.moveaxis(output, 0, -3)  # (..., count, rows, V)
    *leading, _, _, last = ops.shape(output)
    output = ops.cast(output, value.dtype)
    return ops.reshape(output, (*leading, count * rows, last))[..., :length, :]
