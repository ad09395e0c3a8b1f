"""Sparsemax: the nearest distribution to the scores, in which low scores have weight exactly 0."""

from typing import Any

from keras import ops

from keras_quasiattn.ops.backend import maximum
from keras_quasiattn.ops.masking import as_boolean_mask, largest, zero_masked
from keras_quasiattn.ops.precision import compute_dtype
from keras_quasiattn.ops.scored import dot_product_attention

Tensor = Any
# Enough for the precision of float64 in rows of thousands of keys: powers up to 2, and up to 100,
# which are steeper.
_BISECTIONS, _BISECTIONS_IF_STEEP, _NEWTON_STEPS = 4, 8, 6


def sparsemax(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    """Projects each row of scores onto the probability simplex; many weights are exactly 0.

    p = argmin over distributions p of ‖p − z‖²  =  max(z − τ, 0), with τ such that p sums to 1

    τ is found by bisection and then Newton's method, to the precision of the floats. Where S is the
    support, the keys with p > 0, the Jacobian is diag(s) − s·sᵀ/|S| with s = 1 on S and 0
    elsewhere. A masked score has weight exactly 0, whatever it holds. By its definition a row sums
    to 1; a row without visible keys is all zeros here, as in every attention of this package.
    Computed in float32 for 16-bit inputs.

    Args:
        scores: z, (..., S).
        mask: boolean (or 0/1 integer) that broadcasts to (..., S); True = visible.

    Returns:
        p (..., S), float64 if `scores` is, otherwise float32.

    Raises:
        ValueError: a float mask.

    Example:
    >>> import numpy as np
    >>> from keras_quasiattn import ops
    >>> np.asarray(ops.sparsemax(np.array([0.3, 0.1, -1.2]))).round(6).tolist()
    [0.6, 0.4, 0.0]

    Source: Martins & Astudillo 2016, "From Softmax to Sparsemax", eq. 2, algorithm 1 and prop. 2.
    """
    scores, mask = ops.convert_to_tensor(scores), as_boolean_mask(mask, "mask")
    x = below_highest(ops.cast(scores, compute_dtype(scores)), mask)
    return sparse_weights(x, mask, 1)


def sparsemax_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, **options: Any
) -> Tensor | tuple[Tensor, Tensor]:
    """Attention whose weights sum to 1, most of them exactly 0.

    W = sparsemax(scale · query · keyᵀ + bias) over the visible keys;  output = W · value

    A masked pair has weight exactly 0. A query with no key to attend to gives all zeros. W is
    computed in float32 for 16-bit inputs.

    Args:
        query: (..., T, D).
        key: (..., S, D).
        value: (..., S, V).
        mask: boolean (or 0/1 integer) that broadcasts to (..., T, S); True = attend.
        **options: `scale`, `is_causal`, `dropout`, `dropout_seed`, `bias` and `return_scores`, as
            for `ops.softmax_attention`.

    Returns:
        output (..., T, V) in the dtype of `value`, or (output, W) with W (..., T, S).

    Raises:
        ValueError: as `ops.softmax_attention`.

    Example:
    >>> import numpy as np
    >>> from keras_quasiattn import ops
    >>> query, key = np.ones((1, 1)), np.array([[0.3], [0.1], [-1.2]])
    >>> _, weights = ops.sparsemax_attention(query, key, key, return_scores=True)
    >>> np.asarray(weights).round(6).tolist()
    [[0.6, 0.4, 0.0]]

    Source: Martins & Astudillo 2016, "From Softmax to Sparsemax", section 4.2.
    """
    return dot_product_attention(query, key, value, mask, sparsemax, "sparsemax weights", **options)


def below_highest(x: Tensor, mask: Tensor | None) -> Tensor:
    """Returns x (..., S) minus its highest visible entry, from −2 to 0; masked entries are −2.

    Sparse weights depend on differences only, and are 0 for entries that are 1 below the highest.
    An entry below −2 thus does not matter. A row without visible entries is all zeros.
    """
    lowest = -3.4e38  # about the lowest float32
    if mask is not None:
        x = ops.where(mask, x, ops.cast(lowest, x.dtype))
    highest = ops.stop_gradient(ops.expand_dims(largest(x, -1, lowest), -1))
    return maximum(x - highest, ops.cast(-2, x.dtype))


def sparse_weights(x: Tensor, mask: Tensor | None, power: float | Tensor) -> Tensor:
    """max(x − τ, 0)^power, with τ such that the weights of a row sum to 1.

    τ is between −1 and 0, where the highest entry is 0. Bisection finds a lower bound. From there
    Newton's method cannot step beyond τ, because the sum of the weights is a convex falling
    function of it. This takes no sorting, which compilers do slowly.

    Args:
        x: (..., S), from `below_highest`.
        mask: broadcasts to (..., S); True = visible.
        power: 1 or above; a tensor that broadcasts to (..., 1) gets the gradient of the exact
            solution, as x does.

    Returns:
        (..., S), 0 where `mask` is False.
    """
    fixed, fixed_power, bisections = ops.stop_gradient(x), power, _BISECTIONS_IF_STEEP
    if not isinstance(power, (int, float)):
        fixed_power = ops.stop_gradient(power)
    elif power <= 2:
        bisections = _BISECTIONS
    threshold = -ops.ones_like(_total(fixed))
    for step in range(1, bisections + 1):
        middle = threshold + 0.5**step
        threshold = ops.where(_total(_powered(fixed - middle, fixed_power)) < 1, threshold, middle)
    for _ in range(_NEWTON_STEPS):
        base = fixed - threshold
        excess = _total(_powered(base, fixed_power)) - 1
        threshold = threshold + excess / _slope(base, fixed_power)
    # One more step, which is differentiated. As its slope is held fixed, it has the gradients of τ
    # as an implicit function of x and of the power.
    slope = _slope(fixed - threshold, fixed_power)
    threshold = threshold + (_total(_powered(x - threshold, power)) - 1) / slope
    return zero_masked(_powered(x - threshold, power), mask)


def _total(x: Tensor) -> Tensor:
    return ops.sum(x, axis=-1, keepdims=True)


def _powered(base: Tensor, power: float | Tensor) -> Tensor:
    """max(base, 0)^power, with value and gradient 0 where the base is not above 0."""
    if isinstance(power, (int, float)) and power in (0, 1, 2):
        positive = ops.cast(base > 0, base.dtype) if power == 0 else ops.relu(base)
        return ops.square(positive) if power == 2 else positive
    is_positive = base > 0
    safe = ops.where(is_positive, base, ops.ones_like(base))  # 0^power has no finite gradient
    return zero_masked(ops.exp(power * ops.log(safe)), is_positive)


def _slope(base: Tensor, power: float | Tensor) -> Tensor:
    """Σ of the derivatives of max(base, 0)^power, (..., 1); 1 where none is above 0."""
    total = power * _total(_powered(base, power - 1))
    return ops.where(total > 0, total, ops.ones_like(total))
