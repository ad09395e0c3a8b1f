"""Attention in memory linear in the lengths: a tile of queries at a time, forward and backward.

The weights of a query depend on its own scores only, for every attention that says so
(`Attention.rows_are_independent`). So the whole (T, S) matrix need not exist: a tile of queries
attends to all keys, and the backward pass computes the tile again.
"""

import math
from collections.abc import Callable
from typing import Any

from keras import ops

from keras_quasiattn.core.backend import map_tiles
from keras_quasiattn.core.masks import combine_masks
from keras_quasiattn.core.tiling import pad_axis, tile_count

Tensor = Any
# Matrices of fewer weights, of all heads and examples together, are computed whole: that is faster,
# and takes at most 128 MiB for each. A batch whose size is unknown counts as so many examples.
LARGE, UNKNOWN_BATCH = 2**25, 16
# Weights of a tile, of all heads and examples together.
TILE = 2**22


def is_large(query: Tensor, key: Tensor) -> bool:
    """Return whether the matrix of weights is large; False where the lengths are not known.

    Args:
        query: (B, ..., T, D).
        key: (B, ..., S, D).
    """
    batch, *sizes = (*query.shape[:-1], key.shape[-2])
    known = all(isinstance(size, int) for size in sizes) and isinstance(batch, int | None)
    return known and math.prod((batch or UNKNOWN_BATCH, *sizes)) > LARGE


def attend_by_rows(
    attend: Callable[..., Any],
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    *,
    learned: dict[str, Any],
    bias: Tensor | None = None,
    is_causal: bool = False,
    **options: Any,
) -> Tensor:
    """Return `attend(query, key, value, mask, ...)`, computed by tiles of queries.

    Args:
        attend: `Attention.attend` of an attention whose rows are independent.
        query: (..., T, D).
        key: (..., S, D).
        value: (..., S, V).
        mask: boolean, broadcasts to (..., T, S), or None.
        learned: what `Attention.make_weights` returned.
        bias: floats, broadcasts to (..., T, S), or None.
        is_causal: query i attends to keys 0 … i only.
        **options: `scale`, `dropout` and `dropout_seed`, as for `Attention.attend`.

    Returns:
        (..., T, V).
    """
    *lead, length, _ = ops.shape(query)
    source = ops.shape(key)[-2]
    examples = query.shape[0] or UNKNOWN_BATCH
    rows = min(max(TILE // math.prod((examples, *lead[1:], source)), 1), length)
    count = tile_count(length, rows)

    def by_tile(x: Tensor) -> Tensor:
        """(..., T, n) → (count, ..., rows, n)."""
        x = pad_axis(x, len(x.shape) - 2, count * rows)
        *leading, _, last = ops.shape(x)
        x = ops.reshape(x, (*leading, count, rows, last))
        return ops.moveaxis(x, len(leading), 0)

    def has_rows(x: Tensor | None) -> bool:
        return x is not None and x.shape[-2] != 1

    weights = {f"learned {name}": x for name, x in learned.items() if hasattr(x, "dtype")}
    tiles = {"query": by_tile(query)}
    shared = {"key": key, "value": value, **weights}
    if has_rows(bias):
        tiles["bias"] = by_tile(bias)
    elif bias is not None:
        shared["bias"] = bias
    masks = by_tile(mask) if has_rows(mask) else mask

    def of_tile(index: Any, **given: Tensor) -> Tensor:
        visible = ops.take(masks, index, axis=0) if has_rows(mask) else masks
        first = index * rows
        if is_causal:
            position = first + ops.expand_dims(ops.arange(rows, dtype="int32"), 1)
            seen = ops.less_equal(ops.arange(source, dtype="int32"), position)
            visible = combine_masks(visible, seen)
        found = {name: given.get(f"learned {name}", x) for name, x in learned.items()}
        own = {name: x for name, x in given.items() if name not in weights}
        if options.get("dropout"):
            own["first_row"] = first
        return attend(mask=visible, learned=found, **own, **options)  # (..., rows, V)

    output = map_tiles(of_tile, count, tiles, shared)  # (count, ..., rows, V)
    output = ops.moveaxis(output, 0, -3)  # (..., count, rows, V)
    *leading, _, _, last = ops.shape(output)
    return ops.reshape(output, (*leading, count * rows, last))[..., :length, :]
