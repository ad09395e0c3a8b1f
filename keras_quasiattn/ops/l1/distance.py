"""Pairwise L1 distance."""

from collections.abc import Callable
from typing import Any

from keras import ops

from keras_quasiattn.ops.backend import absolute, loop
from keras_quasiattn.ops.checks import check_choice, check_features
from keras_quasiattn.ops.l1.tiles import DistanceTiles
from keras_quasiattn.ops.precision import as_dtype, compute_dtype
from keras_quasiattn.ops.tiling import (
    broadcast_leading,
    empty_tiles,
    flatten_leading,
    joined,
    keys_per_tile,
    pad_axis,
    put,
    sizes_are_symbolic,
    tile_count,
)

Tensor = Any


DISTANCE_IMPLEMENTATIONS = ("auto", "reference", "blockwise")


def pairwise_l1(
    x: Tensor, y: Tensor, weights: Tensor | None = None, *, implementation: str = "auto"
) -> Tensor:
    """L1 distance of every row of `x` to every row of `y`.

    D[t, s] = Σ_f weights[f] · |x[t, f] − y[s, f]|

    The distance and its gradient are computed in float32 for 16-bit inputs. The derivative of |z|
    at 0 is 0, so a position's distance to itself has no gradient.

    Args:
        x: (..., T, D).
        y: (..., S, D); leading dimensions broadcast against those of `x`.
        weights: optional (D,), one factor per feature, of any sign.
        implementation: "reference" makes a (..., T, S, D) tensor of differences. "blockwise"
            computes one tile of keys at a time, forward and backward, and makes no tensor larger
            than the inputs and the result. "auto" is "blockwise", and "reference" where JAX traces
            symbolic sizes. Both give the same distances and gradients up to rounding.

    Returns:
        (..., T, S), float64 if both inputs are, otherwise float32.

    Raises:
        ValueError: an unknown implementation, a rank below 2, last dimensions that differ, or
            `weights` of another shape.

    Example:
    >>> import numpy as np
    >>> from keras_quasiattn import ops
    >>> distance = ops.pairwise_l1(np.array([[1.0, 2.0]]), np.array([[0.0, 0.0], [1.0, 5.0]]))
    >>> np.asarray(distance).tolist()
    [[3.0, 3.0]]

    Source: Tay et al. 2019 (CoDA), eq. 2; the weighted form is Mitra 2019, eq. 7, with absolute
    differences.
    """
    x, y = ops.convert_to_tensor(x), ops.convert_to_tensor(y)
    check_features(x, y, "x", "y")
    check_choice(implementation, DISTANCE_IMPLEMENTATIONS, "implementation")
    if weights is not None:
        weights = ops.convert_to_tensor(weights)
        if len(weights.shape) != 1 or (
            None not in (weights.shape[0], x.shape[-1]) and weights.shape[0] != x.shape[-1]
        ):
            raise ValueError(
                f"`weights` must have shape ({x.shape[-1]},), one factor per feature. "
                f"Received weights.shape={tuple(weights.shape)}."
            )
    dtype = compute_dtype(x, y)
    if weights is not None:
        weights = as_dtype(weights, dtype)
    if implementation == "auto":
        implementation = "reference" if sizes_are_symbolic(x, y) else "blockwise"
    if implementation == "blockwise":
        return _blockwise(ops.cast(x, dtype), ops.cast(y, dtype), weights)
    x, y = ops.expand_dims(ops.cast(x, dtype), -2), ops.expand_dims(ops.cast(y, dtype), -3)
    magnitude = absolute(x - y)  # (..., T, S, D)
    if weights is not None:
        magnitude = magnitude * weights
    return ops.sum(magnitude, axis=-1)


def _blockwise(x: Tensor, y: Tensor, weights: Tensor | None) -> Tensor:
    """The distances without a (T, S, D) tensor, forward or backward.

    Args:
        x: (..., T, D) in the dtype of the computation.
        y: (..., S, D) in the same dtype.
        weights: (D,) in the same dtype, or None.

    Returns:
        (..., T, S), the only tensor larger than the inputs.
    """
    lead = broadcast_leading([x, y])
    target, source, features = ops.shape(x)[-2], ops.shape(y)[-2], x.shape[-1]
    size = keys_per_tile(target, source)
    count = tile_count(source, size)
    # (1, count · size, 1), 0 for keys that only fill the last tile.
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
        # Tiles (B, T, size) are joined to (B, T, count · size), then cut to (B, T, S).
        room = empty_tiles(count, shape, arguments[0].dtype)
        return joined(loop(0, count, add, room), shape, 2)[..., :source], gradient

    flat = [flatten_leading(x, lead, target, features), flatten_leading(y, lead, source, features)]
    result = distances(*flat, *([] if weights is None else [weights]))
    return ops.reshape(result, (*lead, target, source))
