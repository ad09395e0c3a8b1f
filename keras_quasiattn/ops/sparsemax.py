"""Sparsemax: the nearest distribution to the scores, in which low scores have weight exactly 0."""

from typing import Any

from keras import ops

from keras_quasiattn.ops.backend import cumsum, maximum
from keras_quasiattn.ops.masking import as_boolean_mask, largest, zero_masked
from keras_quasiattn.ops.precision import compute_dtype
from keras_quasiattn.ops.scored import dot_product_attention

Tensor = Any


def sparsemax(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    """Projects each row of scores onto the probability simplex; many weights are exactly 0.

    p = argmin over distributions p of ‖p − z‖²  =  max(z − τ, 0), with τ such that p sums to 1

    τ comes from the sorted scores. Where S is the support, the keys with p > 0, the Jacobian is
    diag(s) − s·sᵀ/|S| with s = 1 on S and 0 elsewhere. A masked score has weight exactly 0,
    whatever it holds. By its definition a row sums to 1; a row without visible keys is all zeros
    here, as in every attention of this package. Computed in float32 for 16-bit inputs.

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
    fixed = ops.stop_gradient(x)
    lower, position = descending(fixed)
    totals = cumsum(lower)
    found = ops.cast(1 + position * lower > totals, x.dtype)  # 1 for the |S| highest, then 0
    support = ops.cast(fixed > _threshold(lower, found), x.dtype)
    return zero_masked(ops.relu(x - _threshold(x, support)), mask)


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


def descending(x: Tensor) -> tuple[Tensor, Tensor]:
    """The entries of x (..., S) from high to low, and their places 1 … S."""
    position = ops.cast(ops.arange(1, ops.shape(x)[-1] + 1, dtype="int32"), x.dtype)
    return -ops.sort(-x, axis=-1), position


def _threshold(x: Tensor, support: Tensor) -> Tensor:
    """τ = (Σ x − 1)/|S| over the support, (..., 1)."""
    size = ops.sum(support, axis=-1, keepdims=True)
    total = ops.sum(x * support, axis=-1, keepdims=True)
    return (total - 1) / maximum(size, ops.ones_like(size))
