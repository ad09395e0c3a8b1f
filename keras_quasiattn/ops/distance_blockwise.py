"""Pairwise L1 distances without a (T, S, D) tensor, forward or backward."""

from collections.abc import Callable
from typing import Any

from keras import ops

from keras_quasiattn.ops.loop import loop
from keras_quasiattn.ops.tile_masks import broadcast_leading, flatten_leading
from keras_quasiattn.ops.tiles import DistanceTiles, joined, keys_a_tile, no_tiles, pad_axis, put, tile_count

Tensor = Any


def blockwise_l1(x: Tensor, y: Tensor, weights: Tensor | None) -> Tensor:
    """D[t, s] = Σ_f weights[f] · |x[t, f] − y[s, f]|, made tile by tile.

    Args:
        x: (..., T, D) in the dtype to compute in.
        y: (..., S, D) in the same dtype.
        weights: (D,) in the same dtype, or None.

    Returns:
        (..., T, S); the only tensor larger than the inputs.
    """
    lead = broadcast_leading([x, y])
    target, source, features = ops.shape(x)[-2], ops.shape(y)[-2], x.shape[-1]
    size = keys_a_tile(target, source)
    count = tile_count(source, size)
    real = pad_axis(ops.ones((1, source, 1), dtype=x.dtype), 1, count * size)

    def tiles(x: Tensor, y: Tensor, *scales: Tensor) -> DistanceTiles:
        return DistanceTiles(x, pad_axis(y, 1, count * size), real, size, *scales)

    @ops.custom_gradient
    def distances(*arguments: Tensor) -> tuple[Tensor, Callable[..., tuple[Tensor, ...]]]:
        def gradient(*upstreams: Tensor, upstream: Tensor | None = None) -> tuple[Tensor, ...]:
            shares = pad_axis(upstreams[0] if upstream is None else upstream, 2, count * size)
            gradients = tiles(*arguments).gradient(shares, source)
            return gradients if len(arguments) == 3 else gradients[:2]

        distance_tiles = tiles(*arguments)

        def add(index: Any, result: Tensor) -> Tensor:
            return put(result, index, distance_tiles.tile(index))

        shape = (ops.shape(arguments[0])[0], target, size)
        room = no_tiles(count, shape, arguments[0].dtype)
        return joined(loop(0, count, add, room), shape, 2)[..., :source], gradient

    flat = [flatten_leading(x, lead, target, features), flatten_leading(y, lead, source, features)]
    result = distances(*flat, *([] if weights is None else [weights]))
    return ops.reshape(result, (*lead, target, source))
