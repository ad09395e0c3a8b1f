"""Sparsemax: the nearest distribution to the scores, in which low scores have weight exactly 0."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_quasiattn.attention.base import ScoreAttention, dot_product_attention, register_attention
from keras_quasiattn.attention.multi_head import MultiHeadQuasiAttention
from keras_quasiattn.core.backend import maximum
from keras_quasiattn.core.compiled.arrays import Array, Arrays, read_only
from keras_quasiattn.core.compiled.call import Call, Shape, named
from keras_quasiattn.core.compiled.choice import by_amount, loops_may_run
from keras_quasiattn.core.compiled.threads import Spread
from keras_quasiattn.core.masks import Mask, as_boolean_mask, largest, zero_masked
from keras_quasiattn.core.tensors import are_few, as_dtype, compute_dtype

Tensor = Any
_FEW_SCORES = 2**14  # up to which a call of compiled loops takes longer than operations on tensors
# Newton steps that reach float64 precision in rows of thousands of keys: for powers up to 2, and
# for steeper powers up to 100.
_BISECTIONS, _BISECTIONS_IF_STEEP, _NEWTON_STEPS = 4, 8, 6
# Bisection steps for powers below 1: the bits of a float plus the bits of the number of keys.
BISECTIONS = {"float32": 40, "float64": 68}


def sparsemax(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    """Project each row of scores onto the probability simplex; many weights are exactly 0.

    p = argmin over distributions p of ‖p − z‖²  =  max(z − τ, 0), with τ such that p sums to 1

    τ is found by bisection and then Newton's method, to the precision of the floats. The gradients
    are exact. A masked score has weight exactly 0, whatever its value. Each row sums to 1, except
    that a row without visible keys is all zeros. Computed in float32 for 16-bit inputs.

    Args:
        scores: z, (..., S).
        mask: boolean (or 0/1 integer) that broadcasts to (..., S); True = visible.
            Defaults to None.

    Returns:
        p (..., S), float64 if `scores` is, otherwise float32.

    Raises:
        ValueError: a float mask, or one of another shape.

    Example:
    >>> np.asarray(sparsemax(np.array([0.3, 0.1, -1.2]))).round(6).tolist()
    [0.6, 0.4, 0.0]

    Source: Martins & Astudillo 2016, "From Softmax to Sparsemax", eq. 2, algorithm 1 and prop. 2.
    """
    scores = ops.convert_to_tensor(scores)
    mask = as_boolean_mask(mask, "mask", scores.shape)
    return sparse_weights(ops.cast(scores, compute_dtype(scores)), mask, 2.0)


def sparsemax_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, **options: Any
) -> Tensor | tuple[Tensor, Tensor]:
    """Attend with weights that sum to 1, most of them exactly 0.

    W = sparsemax(scale · query · keyᵀ + bias) over the visible keys;  output = W · value

    Masks, precision and errors are as in `ops.softmax_attention`.

    Args:
        query: (..., T, D).
        key: (..., S, D).
        value: (..., S, V).
        mask: boolean (or 0/1 integer) that broadcasts to (..., T, S); True = attend.
            Defaults to None.
        **options: as for `ops.softmax_attention`, from `scale` on.

    Returns:
        output (..., T, V) in the dtype of `value`, or (output, W) with W (..., T, S).

    Example:
    >>> query, key = np.ones((1, 1)), np.array([[0.3], [0.1], [-1.2]])
    >>> _, weights = sparsemax_attention(query, key, key, return_scores=True)
    >>> np.asarray(weights).round(6).tolist()
    [[0.6, 0.4, 0.0]]

    Source: Martins & Astudillo 2016, "From Softmax to Sparsemax", section 4.2.
    """
    return dot_product_attention(query, key, value, mask, sparsemax, "sparsemax weights", **options)


def sparse_weights(
    scores: Tensor, mask: Tensor | None, alpha: float | Tensor, *, is_convex: bool = True
) -> Tensor:
    """Return max((α − 1)·z − τ, 0)^(1/(α − 1)), (..., S), with τ such that a row sums to 1.

    The scores are float32 or float64. α is above 1; `is_convex` says that it is at most 2. A tensor
    α (..., 1) gets a gradient, too. NaN in a row makes all its visible weights NaN. Compiled loops
    compute the weights of many scores, unless α is a tensor.
    """

    def with_tensors(scores: Tensor, mask: Tensor | None = None) -> Tensor:
        return sparse_weights_of_tensors(scores, mask, alpha, is_convex=is_convex)

    def in_loops(scores: Tensor, mask: Tensor | None = None) -> Tensor:
        from keras_quasiattn.core.compiled.run import run, shared_mask

        shape = (1,) * (2 - len(scores.shape)) + tuple(ops.shape(scores))
        masks = {} if mask is None else shared_mask(mask, shape[:-2])
        rows = ops.reshape(scores, (math.prod(shape[:-2]), *shape[-2:]))  # (B, T, S)
        weights = run(SparseCall(float(alpha), tuple(masks)), [rows], list(masks.values()))
        return ops.reshape(weights[0], ops.shape(scores))

    axes = [(scores, axis) for axis in range(len(scores.shape))]
    is_number = isinstance(alpha, (int, float))
    if not is_number or are_few(axes, _FEW_SCORES) or not loops_may_run(scores):
        return with_tensors(scores, mask)
    given = [scores] if mask is None else [scores, mask]
    return by_amount(axes, _FEW_SCORES, with_tensors, in_loops, *given)


def below_highest(x: Tensor, mask: Tensor | None, factor: float | Tensor = 1) -> Tensor:
    """Return factor · (x − highest visible entry) for x (..., S), at least −2; −2 where masked.

    Sparse weights depend only on differences, and are 0 for entries 1 or more below the highest.
    Subtracting before multiplying keeps the precision of large scores.
    """
    if mask is not None:
        # Nothing is hidden in a row without visible keys: −∞ − (−∞) would be NaN, and tf2onnx turns
        # `where` into a sum of products, in which a NaN that is not chosen remains.
        shown = ops.logical_or(mask, ops.logical_not(ops.any(mask, axis=-1, keepdims=True)))
        x = ops.where(shown, x, as_dtype(-math.inf, x.dtype))
    highest = ops.stop_gradient(ops.expand_dims(largest(x, -1, -math.inf), -1))
    least = -2 / (factor if isinstance(factor, (int, float)) else ops.stop_gradient(factor))
    below = maximum(x - highest, as_dtype(least, x.dtype))
    if mask is not None:
        below = ops.where(mask, below, as_dtype(least, x.dtype))
    return factor * below


def sparse_weights_of_tensors(
    scores: Tensor, mask: Tensor | None, alpha: float | Tensor, *, is_convex: bool = True
) -> Tensor:
    """Compute `sparse_weights` by operations on tensors.

    The highest entry of x = (α − 1)·(z − highest z) is 0, and τ is between −1 and 0. Bisection
    finds a lower bound, from which Newton's method cannot overshoot if the sum of the weights is a
    convex decreasing function of τ; otherwise bisection continues. No sorting is needed, which is
    slow in compiled code. The gradients are those of the exact solution.
    """
    x, power = below_highest(scores, mask, alpha - 1), 1 / (alpha - 1)
    fixed, fixed_power, bisections = ops.stop_gradient(x), power, _BISECTIONS_IF_STEEP
    if not isinstance(power, (int, float)):
        fixed_power = ops.stop_gradient(power)
    elif power <= 2:
        bisections = _BISECTIONS
    if not is_convex:
        weights = _weights(x, mask, power, _bisected(fixed, fixed_power), is_convex)
        total = ops.stop_gradient(_total(weights))  # 1 up to rounding
        return weights / ops.where(total > 0, total, ops.ones_like(total))
    threshold = -ops.ones_like(_total(fixed))
    for step in range(1, bisections + 1):
        middle = threshold + 0.5**step
        threshold = ops.where(_total(_powered(fixed - middle, fixed_power)) < 1, threshold, middle)
    for _ in range(_NEWTON_STEPS):
        base = fixed - threshold
        excess = _total(_powered(base, fixed_power)) - 1
        threshold = threshold + excess / _slope(base, fixed_power)
    return _weights(x, mask, power, threshold, is_convex)


def _bisected(x: Tensor, power: float | Tensor) -> Tensor:
    """Return τ (..., 1) in full precision, bisecting on the highest weight (−τ)^power ≥ 1/S."""
    highest = ops.zeros_like(_total(x))
    for step in range(1, BISECTIONS[keras.backend.standardize_dtype(x.dtype)] + 1):
        middle = highest + 0.5**step
        total = _total(_powered(x + _powered(middle, 1 / power), power))
        highest = ops.where(total < 1, middle, highest)
    return -_powered(highest, 1 / power)


def _weights(
    x: Tensor, mask: Mask, power: float | Tensor, threshold: Tensor, is_convex: bool
) -> Tensor:
    """Return the weights for τ (..., 1), refined by steps that carry the gradients."""
    fixed = ops.stop_gradient(x)
    fixed_power = power if isinstance(power, (int, float)) else ops.stop_gradient(power)
    # Differentiable steps, with the slope held constant. After n of them, the first n derivatives
    # are those of τ as an implicit function of x and of the power; all are, if the power is 1.
    slope = _slope(fixed - threshold, fixed_power)
    for _ in range(1 if isinstance(power, (int, float)) and power == 1 else 2):
        step = (_total(_powered(x - threshold, power)) - 1) / slope
        if not is_convex:  # rounding at the edge of the support may make this step wrong
            step = step - ops.stop_gradient(step)
        threshold = threshold + step
    return zero_masked(_powered(x - threshold, power), mask)


def _total(x: Tensor) -> Tensor:
    return ops.sum(x, axis=-1, keepdims=True)


def _powered(base: Tensor, power: float | Tensor) -> Tensor:
    """Return max(base, 0)^power, with value and gradient 0 where the base is not above 0."""
    if isinstance(power, (int, float)) and power in (0, 1, 2):
        positive = ops.cast(base > 0, base.dtype) if power == 0 else ops.relu(base)
        return ops.square(positive) if power == 2 else positive
    is_positive = ops.logical_not(base <= 0)  # NaN stays
    safe = ops.where(is_positive, base, ops.ones_like(base))  # 0^power has no finite gradient
    return zero_masked(ops.exp(power * ops.log(safe)), is_positive)


def _slope(base: Tensor, power: float | Tensor) -> Tensor:
    """Return Σ of the derivatives of max(base, 0)^power, (..., 1); 1 if no base is above 0."""
    total = power * _total(_powered(base, power - 1))
    return ops.where(total > 0, total, ops.ones_like(total))


@dataclasses.dataclass(frozen=True)
class SparseCall(Call):
    """`sparse_weights` of scores (B, T, S), with or without a mask."""

    alpha: float
    masks: tuple[str, ...] = ()

    names = ("scores",)

    def output_shapes(self, shapes: Sequence[Shape]) -> list[tuple[Any, ...]]:
        """Return the shape of the scores."""
        return [tuple(shapes[0])]

    def forward(self, arrays: Arrays, out: Arrays, spread: Spread) -> None:
        """Write the weights to `out`."""
        self._run(arrays, np.zeros((0, 0, 0), arrays[0].dtype), out, spread)

    def backward(self, upstreams: Arrays, arrays: Arrays, out: Arrays, spread: Spread) -> None:
        """Write the gradient of the scores to `out`."""
        self._run(arrays, upstreams[0], out, spread)

    def _run(self, arrays: Arrays, upstream: Array, out: Arrays, spread: Spread) -> None:
        from keras_quasiattn.attention import sparse_loops

        loop: Any = sparse_loops.write_rows  # compiled functions are untyped
        scores, given = arrays[0], named(self, arrays)
        mask, index = np.zeros((1, 1, 0), np.bool_), np.zeros(0, np.int64)
        if self.masks:
            index, mask = given["full_index"].astype(np.int64), given["full_mask"]
            # The loops read it without a check of its size.
            target = 1 if mask.shape[1] == 1 else scores.shape[1]
            mask = np.broadcast_to(mask, (mask.shape[0], target, scores.shape[2]))
        power = scores.dtype.type(1 / (self.alpha - 1))
        steps = 0 if self.alpha <= 2 else BISECTIONS[scores.dtype.name]
        seen = read_only(mask).view(np.uint8)
        fixed = (read_only(scores), seen, read_only(index), power, steps)

        def share(first: int, count: int) -> None:
            loop(first, count, *fixed, read_only(upstream), out[0])

        spread(share, scores.shape[0] * scores.shape[1])

    def with_tensors(self, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
        """Return the weights by operations on tensors."""
        given = named(self, tensors)
        mask = None
        if self.masks:
            mask = ops.take(given["full_mask"], given["full_index"], axis=0)
        return [
            sparse_weights_of_tensors(given["scores"], mask, self.alpha, is_convex=self.alpha <= 2)
        ]


@dataclasses.dataclass
class Sparsemax(ScoreAttention):
    """Weights are the sparsemax of the scores; there are no options."""

    label = "sparsemax weights"

    def weights(self, scores: Tensor, mask: Mask, learned: dict[str, Any]) -> Tensor:
        """Return the sparsemax of each row."""
        return sparsemax(scores, mask)


@register_attention("sparsemax")
@keras.saving.register_keras_serializable(package="keras_quasiattn")
class MultiHeadSparsemax(MultiHeadQuasiAttention):
    """`keras.layers.MultiHeadAttention` with sparse weights: they sum to 1, and most are exactly 0.

    weights = sparsemax(q·kᵀ/√H) over the visible keys;  output = (weights·v)·W_o

    All else is as in `layers.MultiHeadSoftmax`.

    Args:
        **arguments: as for `layers.MultiHeadQuasiAttention`.

    Returns:
        (B, T, features); with `return_attention_scores` also the weights (B, N, T, S).

    Example:
    >>> x = np.ones((2, 5, 16), "float32")
    >>> tuple(MultiHeadSparsemax(num_heads=2, key_dim=8)(x, x).shape)
    (2, 5, 16)

    Source: Martins & Astudillo 2016, "From Softmax to Sparsemax".
    """

    options_class = Sparsemax
