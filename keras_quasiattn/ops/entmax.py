"""α-entmax: weights between a softmax (α = 1) and a sparsemax (α = 2)."""

from typing import Any

from keras import ops

from keras_quasiattn.ops.backend import cumsum
from keras_quasiattn.ops.masking import as_boolean_mask, masked_softmax, zero_masked
from keras_quasiattn.ops.precision import as_dtype, compute_dtype
from keras_quasiattn.ops.scored import dot_product_attention
from keras_quasiattn.ops.sparsemax import below_highest, descending, sparsemax

Tensor = Any
LEAST_ALPHA = 1.01  # below it, powers of 1/(α − 1) are too steep for float32
_BISECTIONS, _NEWTON_STEPS = 8, 6


def entmax(scores: Tensor, mask: Tensor | None = None, alpha: float | Tensor = 1.5) -> Tensor:
    """Weights that are a softmax for α = 1, a sparsemax for α = 2, and in between for others.

    p = max((α − 1)·z − τ, 0)^(1/(α − 1)), with τ such that p sums to 1

    For α = 1.5 and α = 2, τ follows from the sorted scores. For other values it is found by
    bisection and then Newton's method. The gradients are those of the exact solution, that of α
    too. A masked score has weight exactly 0, whatever it holds. By its definition a row sums to 1;
    a row without visible keys is all zeros here, as in every attention of this package. Computed in
    float32 for 16-bit inputs.

    Args:
        scores: z, (..., S).
        mask: boolean (or 0/1 integer) that broadcasts to (..., S); True = visible.
        alpha: α: 1 (softmax), or a number from 1.01 to 2, or a tensor of such that broadcasts to
            (..., 1); lower and higher values in a tensor count as 1.01 and 2.

    Returns:
        p (..., S), float64 if `scores` is, otherwise float32.

    Raises:
        ValueError: a float mask, or an α out of range.

    Example:
    >>> import numpy as np
    >>> from keras_quasiattn import ops
    >>> for alpha in (1, 1.5, 2):
    ...     print(np.asarray(ops.entmax(np.array([2.0, 1.0, -1.0]), alpha=alpha)).round(3).tolist())
    [0.705, 0.259, 0.035]
    [0.831, 0.169, 0.0]
    [1.0, 0.0, 0.0]

    Source: Peters, Niculae & Martins 2019, "Sparse Sequence-to-Sequence Models", eqs. 10 and 12,
    algorithms 1 and 2; the gradient of α: Correia et al. 2019, "Adaptively Sparse Transformers".
    """
    scores, mask = ops.convert_to_tensor(scores), as_boolean_mask(mask, "mask")
    scores = ops.cast(scores, compute_dtype(scores))
    if isinstance(alpha, (int, float)):
        check_alpha(alpha)
        if alpha == 1:
            return masked_softmax(scores, mask)
        if alpha == 2:
            return sparsemax(scores, mask)
        order = as_dtype(alpha, scores.dtype)
    else:
        order = ops.clip(as_dtype(alpha, scores.dtype), LEAST_ALPHA, 2.0)
    x = below_highest((order - 1) * scores, mask)
    power = 1 / (order - 1)
    fixed, fixed_power = ops.stop_gradient(x), ops.stop_gradient(power)
    if isinstance(alpha, float) and alpha == 1.5:
        threshold = _threshold_of_squares(fixed)
    else:
        threshold = _threshold_by_bisection(fixed, fixed_power)
    # The last Newton step is differentiated. As its slope is held fixed, it has the gradients of τ
    # as an implicit function of x and α.
    threshold = ops.stop_gradient(threshold)
    slope = _slope(fixed - threshold, fixed_power)
    threshold = threshold + (_total(_powered(x - threshold, power)) - 1) / slope
    return zero_masked(_powered(x - threshold, power), mask)


def entmax_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    alpha: float | Tensor = 1.5,
    **options: Any,
) -> Tensor | tuple[Tensor, Tensor]:
    """Attention whose weights sum to 1, the more of them exactly 0 the larger α is.

    W = entmax(scale · query · keyᵀ + bias, α) over the visible keys;  output = W · value

    A masked pair has weight exactly 0. A query with no key to attend to gives all zeros. W is
    computed in float32 for 16-bit inputs.

    Args:
        query: (..., T, D).
        key: (..., S, D).
        value: (..., S, V).
        mask: boolean (or 0/1 integer) that broadcasts to (..., T, S); True = attend.
        alpha: as for `ops.entmax`; a tensor broadcasts to (..., T, 1).
        **options: `scale`, `is_causal`, `dropout`, `dropout_seed`, `bias` and `return_scores`, as
            for `ops.softmax_attention`.

    Returns:
        output (..., T, V) in the dtype of `value`, or (output, W) with W (..., T, S).

    Raises:
        ValueError: an α out of range, and as `ops.softmax_attention`.

    Example:
    >>> import numpy as np
    >>> from keras_quasiattn import ops
    >>> query, key = np.ones((1, 1)), np.array([[2.0], [1.0], [-1.0]])
    >>> _, weights = ops.entmax_attention(query, key, key, return_scores=True)
    >>> np.asarray(weights).round(3).tolist()
    [[0.831, 0.169, 0.0]]

    Source: Peters, Niculae & Martins 2019, "Sparse Sequence-to-Sequence Models", section 3.
    """

    def weigh(scores: Tensor, mask: Tensor | None) -> Tensor:
        return entmax(scores, mask, alpha)

    return dot_product_attention(query, key, value, mask, weigh, "entmax weights", **options)


def check_alpha(alpha: float) -> None:
    """Raises a `ValueError` unless α is 1 or from 1.01 to 2."""
    if alpha != 1 and not LEAST_ALPHA <= alpha <= 2:
        raise ValueError(f"`alpha` must be 1, or from {LEAST_ALPHA} to 2. Received: alpha={alpha}")


def _powered(base: Tensor, power: Tensor) -> Tensor:
    """max(base, 0)^power, with gradient 0 where the base is not above 0."""
    is_positive = base > 0
    safe = ops.where(is_positive, base, ops.ones_like(base))  # 0^power has no finite gradient
    return zero_masked(ops.exp(power * ops.log(safe)), is_positive)


def _total(x: Tensor) -> Tensor:
    return ops.sum(x, axis=-1, keepdims=True)


def _slope(base: Tensor, power: Tensor) -> Tensor:
    """Σ of the derivatives of max(base, 0)^power, (..., 1); 1 where none is above 0."""
    total = power * _total(_powered(base, power - 1))
    return ops.where(total > 0, total, ops.ones_like(total))


def _threshold_of_squares(x: Tensor) -> Tensor:
    """τ for α = 1.5, where the weights are squares: the solution of a quadratic equation."""
    lower, size = descending(x)
    mean = cumsum(lower) / size
    variance = cumsum(ops.square(lower)) / size - ops.square(mean)
    # One candidate for each size of the support: Σ (x − τ)² = 1 over the highest entries.
    candidates = mean - ops.sqrt(ops.relu(1 / size - variance))
    found = _total(ops.cast(candidates <= lower, x.dtype))
    return _total(ops.where(ops.equal(size, found), candidates, ops.zeros_like(candidates)))


def _threshold_by_bisection(x: Tensor, power: Tensor) -> Tensor:
    """τ, between −1 and 0, where the highest entry of a row is 0.

    Bisection finds a lower bound. From there Newton's method cannot step beyond τ, because the sum
    of the weights is a convex falling function of it.
    """
    lower = -ops.ones_like(_total(x))
    for step in range(1, _BISECTIONS + 1):
        middle = lower + 0.5**step
        lower = ops.where(_total(_powered(x - middle, power)) >= 1, middle, lower)
    for _ in range(_NEWTON_STEPS):
        base = x - lower
        lower = lower + (_total(_powered(base, power)) - 1) / _slope(base, power)
    return lower
