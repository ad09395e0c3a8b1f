"""Pairwise L1 distance."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from keras import ops

from keras_quasiattn.core.backend import (
    absolute,
    add_rows,
    l1_distances,
    l1_gradients,
    loop,
    maximum,
    runs_op_by_op,
    with_gradient,
)
from keras_quasiattn.core.compiled.choice import by_amount, loops_may_run
from keras_quasiattn.core.masks import finite_positions, zero_padding
from keras_quasiattn.core.tensors import (
    are_few,
    as_dtype,
    check_choice,
    check_features,
    compute_dtype,
)
from keras_quasiattn.core.tiling import (
    broadcast_leading,
    empty_tiles,
    flatten_leading,
    joined,
    keys_per_tile,
    pad_axis,
    put,
    sizes_are_symbolic,
    take,
    take_columns,
    tile_count,
)

Tensor = Any


DISTANCE_IMPLEMENTATIONS = ("auto", "reference", "blockwise")
_FEW_DIFFERENCES = 2**18  # up to which a call of compiled loops takes longer than blocks of tensors


def pairwise_l1(
    x: Tensor, y: Tensor, weights: Tensor | None = None, *, implementation: str = "auto"
) -> Tensor:
    """Return the L1 distance of every row of `x` to every row of `y`.

    D[t, s] = Σ_f weights[f] · |x[t, f] − y[s, f]|

    Computed in float32 for 16-bit inputs. The derivative of |z| at 0 is 0, so a position's distance
    to itself has no gradient.

    Args:
        x: (..., T, D).
        y: (..., S, D); leading dimensions broadcast against `x`.
        weights: (D,), one factor per feature, of any sign. Defaults to None.
        implementation: "reference" makes a (..., T, S, D) tensor. "blockwise" computes one tile of
            keys at a time, forward and backward, in the memory of the inputs and the result. "auto"
            is "blockwise", or "reference" where JAX traces symbolic sizes; for many differences, it
            takes compiled loops where these may run. Defaults to "auto".

    Returns:
        (..., T, S), float64 if both inputs are, otherwise float32.

    Raises:
        ValueError: an unknown implementation, a rank below 2, last dimensions that differ, or
            `weights` of another shape.

    Example:
    >>> distance = pairwise_l1(np.array([[1.0, 2.0]]), np.array([[0.0, 0.0], [1.0, 5.0]]))
    >>> np.asarray(distance).tolist()
    [[3.0, 3.0]]

    Source: Tay et al. 2019 (CoDA), eq. 2; the weighted form is Mitra 2019, eq. 7, with absolute
    differences.
    """
    x, y = ops.convert_to_tensor(x), ops.convert_to_tensor(y)
    check_features(x, y, "x", "y")
    check_choice(implementation, DISTANCE_IMPLEMENTATIONS, "implementation")
    dtype = compute_dtype(x, y)
    x, y = ops.cast(x, dtype), ops.cast(y, dtype)
    given = [x, y]
    if weights is not None:
        weights = ops.convert_to_tensor(weights)
        if len(weights.shape) != 1 or (
            None not in (weights.shape[0], x.shape[-1]) and weights.shape[0] != x.shape[-1]
        ):
            raise ValueError(
                f"`weights` must have shape ({x.shape[-1]},), one factor per feature. "
                f"Received weights.shape={tuple(weights.shape)}."
            )
        weights = as_dtype(weights, dtype)
        given.append(weights)
    if implementation == "auto":
        axes = [*((x, axis) for axis in range(len(x.shape))), (y, -2)]
        if not are_few(axes, _FEW_DIFFERENCES) and loops_may_run(x, y):
            return by_amount(axes, _FEW_DIFFERENCES, _blockwise, _in_loops, *given)
        implementation = "reference" if sizes_are_symbolic(x, y) else "blockwise"
    if implementation == "blockwise":
        return _blockwise(*given)
    x, y = ops.expand_dims(x, -2), ops.expand_dims(y, -3)
    magnitude = absolute(x - y)  # (..., T, S, D)
    if weights is not None:
        magnitude = magnitude * weights
    return ops.sum(magnitude, axis=-1)


def _flattened(
    distances: Callable[..., Tensor], x: Tensor, y: Tensor, weights: Tensor | None = None
) -> Tensor:
    """Return (..., T, S) from a function of x (B, T, F), y (B, S, F) and perhaps weights (B, 1, F).

    If all of B share the weights, their gradient is the sum over B.
    """
    lead = broadcast_leading([x, y])
    target, source, features = ops.shape(x)[-2], ops.shape(y)[-2], x.shape[-1]
    flat = [flatten_leading(x, lead, target, features), flatten_leading(y, lead, source, features)]
    if weights is not None:
        flat.append(ops.broadcast_to(weights, (math.prod(lead), 1, features)))
    return ops.reshape(distances(*flat), (*lead, target, source))


def blockwise_distances(x: Tensor, y: Tensor, *weights: Tensor) -> Tensor:
    """Return the distances (B, T, S) without a (T, S, F) tensor, forward or backward."""
    target, source = ops.shape(x)[1], ops.shape(y)[1]
    size = keys_per_tile(target, source)
    count = tile_count(source, size)

    def tiles(x: Tensor, y: Tensor, *weights: Tensor) -> DistanceTiles:
        # (1, count · size, 1), 0 for keys that only fill the last tile. Made here, because on JAX a
        # function with a custom gradient must not capture a tensor of a surrounding loop.
        real = pad_axis(ops.ones((1, source, 1), dtype=x.dtype), 1, count * size)
        return DistanceTiles(x, pad_axis(y, 1, count * size), real, size, *weights)

    def distances(*arguments: Tensor) -> tuple[Tensor]:
        distance_tiles = tiles(*arguments)

        def add(index: Any, result: Tensor) -> Tensor:
            return put(result, index, distance_tiles.tile(index))

        shape = (ops.shape(arguments[0])[0], target, size)
        # Tiles (B, T, size) are joined to (B, T, count · size), then cut to (B, T, S).
        buffer = empty_tiles(count, shape, arguments[0].dtype)
        return (joined(loop(0, count, add, buffer), shape, 2)[..., :source],)

    def gradient(arguments: Sequence[Tensor], upstreams: Sequence[Tensor]) -> tuple[Tensor, ...]:
        shares = pad_axis(upstreams[0], 2, count * size)
        return tiles(*arguments).gradient(shares, source)[: len(arguments)]

    return with_gradient(distances, gradient)(x, y, *weights)[0]


def _distances_in_loops(x: Tensor, y: Tensor, weights: Tensor | None = None) -> Tensor:
    from keras_quasiattn.core.compiled.run import run
    from keras_quasiattn.core.l1_loops import DistanceCall

    weights = ops.ones((ops.shape(x)[0], 1, x.shape[2]), x.dtype) if weights is None else weights
    return run(DistanceCall(), [x, y, weights], [])[0]


_blockwise = functools.partial(_flattened, blockwise_distances)
_in_loops = functools.partial(_flattened, _distances_in_loops)


STEP = 16  # features or positions unrolled in a loop step; 8 is several times slower under XLA
# Features per step if every operation is a kernel call; a step holds a (B, T, tile) tensor each.
FEATURES_AT_ONCE = 4


def pad_features(x: Tensor) -> Tensor:
    """Pad the features of `x` with zeros to a multiple of the step; distances stay the same."""
    features = x.shape[-1]
    step = min(STEP, max(1, features))
    return pad_axis(x, 2, step * tile_count(features, step))


def sum_of_maxima(x: Tensor, y: Tensor, weights: Tensor | None = None) -> Tensor:
    """Return Σ_f weights[f] · max(x[t, f], y[s, f]), (B, T, s), which XLA compiles to one loop.

    x, y and weights have features first: (B, F, T), (B, F, s) and (B, F, 1) or None.
    """
    features = x.shape[1]
    step = min(STEP, features)

    def add(index: Any, total: Tensor) -> Tensor:
        # (B, step, T) and (B, step, s); each maximum is (B, T, s), and each scale (B, 1, 1).
        rows, columns = take(x, index, step), take(y, index, step)
        scales = None if weights is None else take(weights, index, step)
        for f in range(step):
            maxima = maximum(rows[:, f, :, None], columns[:, f, None, :])
            total = total + (maxima if scales is None else scales[:, f, :, None] * maxima)
        return total

    start = ops.zeros_like(x[:, 0, :, None] + y[:, 0, None, :])
    count = features // step
    return add(0, start) if count == 1 else loop(0, count, add, start)


def maxima_by_feature(x: Tensor, y: Tensor, weights: Tensor | None = None) -> Tensor:
    """Return the same sum, from x (F, B, T) and y (F, B, s), in fewer operations without XLA."""
    features, batch, target = ops.shape(x)
    size, step = ops.shape(y)[2], math.gcd(FEATURES_AT_ONCE, features)

    def add(index: Any, total: Tensor) -> Tensor:
        def part(side: Tensor) -> Tensor:
            return ops.slice(side, (index * step, 0, 0), (step, *ops.shape(side)[1:]))

        # TensorFlow broadcasts three axes faster than four.
        rows = ops.reshape(part(x), (step * batch, target, 1))
        columns = ops.reshape(part(y), (step * batch, 1, size))
        maxima = ops.reshape(maximum(rows, columns), (step, batch * target, size))
        if weights is not None:  # (step, B, 1), the same for all T
            scales = ops.broadcast_to(part(weights), (step, batch, target))
            maxima = maxima * ops.reshape(scales, (step, batch * target, 1))
        return add_rows(total, maxima)

    total = loop(0, features // step, add, ops.zeros((batch * target, size), dtype=x.dtype))
    return ops.reshape(total, (batch, target, size))


def sum_of_signs(x: Tensor, y: Tensor, factors: Tensor) -> Tensor:
    """Return Σ_s factors[s, t] · sign(x[t, f] − y[s, f]), 0 at ties: (B, T, F).

    x is (B, T, F), y (B, S, F) and factors (B, S, T), with S a multiple of `STEP`.
    """

    def add(index: Any, total: Tensor) -> Tensor:
        # (B, STEP, F) and (B, STEP, T); each sign is (B, T, F).
        points, shares = take(y, index, STEP), take(factors, index, STEP)
        for position in range(STEP):
            signs = ops.sign(x - points[:, position, None, :])
            total = total + signs * shares[:, position, :, None]
        return total

    start = ops.zeros_like(x)
    length = ops.shape(y)[1]
    count = length // STEP
    return add(0, start) if isinstance(count, int) and count == 1 else loop(0, count, add, start)


def signs_by_feature(x: Tensor, y: Tensor, factors: Tensor) -> tuple[Tensor, Tensor]:
    """Return the sums for x and for y in fewer, larger operations: fast without XLA, slow under it.

    From x (B, T, F) of `pad_features`, y (B, s, F) and factors (B, T, s) they are
    Σ_s factors[t, s] · sign(x[t, f] − y[s, f]), (B, T, F), and −Σ_t of the same terms, (B, s, F).
    """
    step = math.gcd(FEATURES_AT_ONCE, x.shape[2])
    x, y = (ops.transpose(side, (0, 2, 1)) for side in (x, y))

    def add(index: Any, sums: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        rows, columns = take(x, index, step), take(y, index, step)
        of_x, of_y = [], []  # (B, T) and (B, s) for each feature
        for feature in range(step):
            signs = ops.sign(rows[:, feature, :, None] - columns[:, feature, None, :]) * factors
            of_x.append(ops.sum(signs, axis=2))
            of_y.append(-ops.sum(signs, axis=1))
        of_x = put(sums[0], index, ops.stack(of_x, axis=1))
        of_y = put(sums[1], index, ops.stack(of_y, axis=1))
        return of_x, of_y

    # The loop limits how many (T, s) tensors exist at once; without it a graph would hold all of
    # them.
    count = x.shape[1] // step
    shapes = [(ops.shape(side)[0], step, ops.shape(side)[2]) for side in (x, y)]
    sums = loop(0, count, add, tuple(empty_tiles(count, shape, x.dtype) for shape in shapes))
    of_x, of_y = (joined(tiles, shape, 1) for tiles, shape in zip(sums, shapes, strict=True))
    return ops.transpose(of_x, (0, 2, 1)), ops.transpose(of_y, (0, 2, 1))


class DistanceTiles:
    """‖x[t] − y[s]‖₁ for one tile of keys at a time, and its gradient.

    Computed as Σ|x − y| = 2·Σ max(x, y) − Σx − Σy, in two instructions per element instead of
    three. The mean of the keys is subtracted from both sides first, because a large common offset
    would lose precision by cancellation. Where the backend has a kernel for the distance, it serves
    features without weights.

    x is (B, T, F), and y (B, S, F) with zeros at masked keys. S is a multiple of `size`, the number
    of keys in a tile, which may be a tensor. `real` (B or 1, S, 1) is 1 where a key is real.
    `weights` are (B, 1, F).
    """

    def __init__(
        self, x: Tensor, y: Tensor, real: Tensor, size: Any, weights: Tensor | None = None
    ) -> None:
        self.size = size
        count = maximum(ops.sum(real, axis=1, keepdims=True), ops.cast(1, x.dtype))
        # (B, 1, F): the mean of the real keys.
        shift = ops.sum(y * real, axis=1, keepdims=True) / count
        # NaN or infinity in a key must not reach the distances of the others.
        shift = zero_padding(shift, finite_positions(shift))
        self.features = x.shape[-1]
        # Compare the original values: a compiler may round the mean in two ways.
        self.given_x, self.given_y = pad_features(x), pad_features(y)
        x, y = pad_features(x - shift), pad_features((y - shift) * real)
        self.x, self.y = x, y
        self.x_padded = pad_axis(self.given_x, 1, STEP * tile_count(ops.shape(x)[1], STEP))
        self.x_by_feature = self._by_feature(x)
        self.weights = None if weights is None else pad_features(weights)
        self.x_sums = self._sums(x)  # (B, T, 1)

    def _sums(self, x: Tensor) -> Tensor:
        return ops.sum(x if self.weights is None else x * self.weights, axis=2, keepdims=True)

    def _by_feature(self, x: Tensor) -> Tensor:
        """Return (B, L, F) as `maxima_by_feature` or `sum_of_maxima` takes it."""
        return ops.transpose(x, (2, 0, 1) if runs_op_by_op() else (0, 2, 1))

    def tile(self, index: Any) -> Tensor:
        """Return the distances (B, T, size) to the keys of tile `index`."""
        y = take(self.y, index, self.size)
        if l1_distances is not None and self.weights is None:
            found = l1_distances(self.x, y)
            if found is not None:
                return found
        scales = None if self.weights is None else self._by_feature(self.weights)
        add = maxima_by_feature if runs_op_by_op() else sum_of_maxima
        maxima = add(self.x_by_feature, self._by_feature(y), scales)
        distance = 2 * maxima - self.x_sums - ops.transpose(self._sums(y), (0, 2, 1))
        # Rounding may give a small negative distance; weighted distances may truly be negative.
        return distance if scales is not None else maximum(distance, ops.cast(0, distance.dtype))

    def tile_gradient(self, index: Any, upstream: Tensor) -> tuple[Tensor, Tensor]:
        """Return the gradients of Σ upstream · distance for x and the keys of tile `index`."""
        y = take(self.given_y, index, self.size)
        if runs_op_by_op():
            given = (self.given_x, y, upstream)
            found = l1_gradients and l1_gradients(*given)
            x_gradient, y_gradient = found or signs_by_feature(*given)
        else:
            x_gradient = sum_of_signs(self.given_x, y, ops.transpose(upstream, (0, 2, 1)))
            # (B, padded T, size): rows of padding have upstream 0.
            rows = pad_axis(upstream, 1, ops.shape(self.x_padded)[1])
            y_gradient = sum_of_signs(y, self.x_padded, rows)
        return x_gradient[..., : self.features], y_gradient[..., : self.features]

    def gradient(self, upstream: Tensor, source: Any) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return the gradients of Σ upstream · distance: x, the first `source` keys, the weights.

        The gradient of the weights needs no extra pass over the tiles, because
        Σ_ts G·|x − y| = Σ_t x·(Σ_s G·sign(x − y)) + Σ_s y·(Σ_t G·sign(y − x)).
        """

        def add(index: Any, totals: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
            rows, keys = self.tile_gradient(index, take_columns(upstream, index, self.size))
            return totals[0] + rows, put(totals[1], index, keys)

        x, y = self.x[..., : self.features], self.y[..., : self.features]
        count = tile_count(source, self.size)
        shape = (ops.shape(y)[0], self.size, self.features)
        of_x, of_y = loop(0, count, add, (ops.zeros_like(x), empty_tiles(count, shape, y.dtype)))
        of_y = joined(of_y, shape, 1)[:, :source]
        if self.weights is None:
            return of_x, of_y, None
        terms = (x * of_x, y[:, :source] * of_y)
        of_weights = sum(ops.sum(term, axis=1, keepdims=True) for term in terms)
        scales = self.weights[..., : self.features]
        return of_x * scales, of_y * scales, of_weights
