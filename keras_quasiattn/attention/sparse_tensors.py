"""Sparse weights by operations on tensors."""

import math
from typing import Any

import keras
from keras import ops

from keras_quasiattn.core.backend import maximum
from keras_quasiattn.core.masks import largest, zero_masked
from keras_quasiattn.core.tensors import as_dtype

Tensor = Any
LOWEST = -3.4e38  # of masked scores: about the lowest float32
# Newton steps that reach float64 precision in rows of thousands of keys: for powers up to 2, and
# for steeper powers up to 100.
_BISECTIONS, _BISECTIONS_IF_STEEP, _NEWTON_STEPS = 4, 8, 6
# Bisection steps for powers below 1: the bits of a float plus the bits of the number of keys.
BISECTIONS = {"float32": 40, "float64": 68}


def below_highest(x: Tensor, mask: Tensor | None, factor: float | Tensor = 1) -> Tensor:
    """Return factor · (x − highest visible entry) for x (..., S), at least −2; −2 where masked.

    Sparse weights depend only on differences, and are 0 for entries 1 or more below the highest.
    Subtracting before multiplying keeps the precision of large scores.
    """
    lowest = -math.inf
    if mask is not None:
        lowest = LOWEST
        x = ops.where(mask, x, ops.cast(lowest, x.dtype))
    highest = ops.stop_gradient(ops.expand_dims(largest(x, -1, lowest), -1))
    least = -2 / (factor if isinstance(factor, (int, float)) else ops.stop_gradient(factor))
    return factor * maximum(x - highest, as_dtype(least, x.dtype))


def sparse_weights_of_tensors(
    scores: Tensor, mask: Tensor | None, alpha: float | Tensor, *, is_convex: bool = True
) -> Tensor:
    """Compute `sparse_weights` by operations on tensors.

    The highest entry of x = (α − 1)·(z − highest z) is 0, and τ is between −1 and 0. Bisection
    finds a lower bound, from which Newton's method cannot overshoot if the sum of the weights is a
    convex decreasing function of τ; otherwise bisection continues. No sorting is needed, which
    compiled code does slowly. The gradients are those of the exact solution.
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
    """Return τ (..., 1) in full precision, by bisection of the highest weight (−τ)^power ≥ 1/S."""
    highest = ops.zeros_like(_total(x))
    for step in range(1, BISECTIONS[keras.backend.standardize_dtype(x.dtype)] + 1):
        middle = highest + 0.5**step
        total = _total(_powered(x + _powered(middle, 1 / power), power))
        highest = ops.where(total < 1, middle, highest)
    return -_powered(highest, 1 / power)


def _weights(
    x: Tensor, mask: Tensor | None, power: float | Tensor, threshold: Tensor, is_convex: bool
) -> Tensor:
    """Return the weights for τ (..., 1), refined by one step that carries the gradients."""
    fixed = ops.stop_gradient(x)
    fixed_power = power if isinstance(power, (int, float)) else ops.stop_gradient(power)
    # One more, differentiable step. With its slope held constant, it has the gradients of τ as an
    # implicit function of x and of the power.
    slope = _slope(fixed - threshold, fixed_power)
    step = (_total(_powered(x - threshold, power)) - 1) / slope
    if not is_convex:  # rounding at the edge of the support may make this step wrong
        step = step - ops.stop_gradient(step)
    return zero_masked(_powered(x - (threshold + step), power), mask)


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
