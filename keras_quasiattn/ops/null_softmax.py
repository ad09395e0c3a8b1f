"""Softmax with a null: a query may attend to nothing, so weights sum to less than 1."""

from typing import Any

from keras import ops

from keras_quasiattn.ops.backend import maximum
from keras_quasiattn.ops.masking import largest, zero_masked
from keras_quasiattn.ops.precision import as_dtype
from keras_quasiattn.ops.scored import dot_product_attention

Tensor = Any


def null_softmax_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    null_score: float | Tensor = 0.0,
    **options: Any,
) -> Tensor | tuple[Tensor, Tensor]:
    """Softmax attention with one more key, the null, whose value is 0.

    E = scale · query · keyᵀ + bias;  W_ts = exp(E_ts) / (exp(b) + Σ_s exp(E_ts));
    output = W · value

    With b = 0 this is "softmax off by one", 1 + Σ in the denominator; with a learned b for each
    head, an attention sink. A row sums to less than 1, and to nearly 0 where all its scores are far
    below b. A masked pair has weight exactly 0. A query with no key to attend to gives all zeros. W
    is computed in float32 for 16-bit inputs.

    Args:
        query: (..., T, D).
        key: (..., S, D).
        value: (..., S, V).
        mask: boolean (or 0/1 integer) that broadcasts to (..., T, S); True = attend.
        null_score: b, a number or a tensor that broadcasts to (..., T, 1).
        **options: `scale`, `is_causal`, `dropout`, `dropout_seed`, `bias` and `return_scores`, as
            for `ops.softmax_attention`.

    Returns:
        output (..., T, V) in the dtype of `value`, or (output, W) with W (..., T, S).

    Raises:
        ValueError: as `ops.softmax_attention`.

    Example:
    >>> import numpy as np
    >>> from keras_quasiattn import ops
    >>> query, key = np.ones((1, 1)), np.zeros((3, 1))
    >>> _, weights = ops.null_softmax_attention(query, key, key, return_scores=True)
    >>> np.asarray(weights).tolist()
    [[0.25, 0.25, 0.25]]

    Source: Miller 2023, "Attention Is Off By One"; a learned b: OpenAI 2025, "gpt-oss-120b &
    gpt-oss-20b Model Card".
    """

    def weigh(scores: Tensor, mask: Tensor | None) -> Tensor:
        null = as_dtype(null_score, scores.dtype)
        lowest = -3.4e38  # about the lowest float32
        if mask is not None:
            scores = ops.where(mask, scores, ops.cast(lowest, scores.dtype))
        highest = maximum(ops.expand_dims(largest(scores, -1, lowest), -1), null)
        highest = ops.stop_gradient(highest)
        weights = zero_masked(ops.exp(scores - highest), mask)
        return weights / (ops.exp(null - highest) + ops.sum(weights, axis=-1, keepdims=True))

    return dot_product_attention(query, key, value, mask, weigh, "null softmax weights", **options)
