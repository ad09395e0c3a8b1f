"""Context-guided quasi-attention: a softmax plus a gated term that may add or subtract."""

from typing import Any

from keras import ops

from keras_quasiattn.ops.masking import masked_softmax, zero_masked
from keras_quasiattn.ops.precision import as_dtype, dot_products
from keras_quasiattn.ops.scored import dot_product_attention

Tensor = Any


def context_guided_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    query_context: Tensor,
    key_context: Tensor,
    query_gate: Tensor,
    key_gate: Tensor,
    alpha: float = 1.0,
    scale: float = 1.0,
    **options: Any,
) -> Tensor | tuple[Tensor, Tensor]:
    """Softmax attention plus quasi-attention, whose weights are positive or negative.

    W = softmax(scale · query · keyᵀ + bias) + λ · α · sigmoid(scale · C_Q · C_Kᵀ);
    λ = 1 − λ_Q − λ_K, for each pair;  output = W · value

    λ is between −1 and 1, so with α = 1 a weight is between −1 and 2. A masked pair has weight
    exactly 0. A query with no key to attend to gives all zeros. W is computed in float32 for 16-bit
    inputs.

    Args:
        query: (..., T, D).
        key: (..., S, D).
        value: (..., S, V).
        mask: boolean (or 0/1 integer) that broadcasts to (..., T, S); True = attend.
        query_context: C_Q, (..., T, C).
        key_context: C_K, (..., S, C).
        query_gate: λ_Q, numbers in [0, 1], (..., T).
        key_gate: λ_K, numbers in [0, 1], (..., S).
        alpha: α, the size of the quasi-attention.
        scale: factor of both dot products, usually 1/√D.
        **options: `is_causal`, `dropout`, `dropout_seed`, `bias` and `return_scores`, as for
            `ops.softmax_attention`.

    Returns:
        output (..., T, V) in the dtype of `value`, or (output, W) with W (..., T, S).

    Raises:
        ValueError: a finite bias below −1e4, which does not delete a key (graphs cannot find it),
            and as `ops.softmax_attention`.

    Example:
    >>> import numpy as np
    >>> from keras_quasiattn import ops
    >>> x = np.zeros((2, 1))
    >>> context = {"query_context": x, "key_context": x}
    >>> gates = {"query_gate": np.array([0.5, 1.0]), "key_gate": np.array([0.5, 1.0])}
    >>> _, weights = ops.context_guided_attention(x, x, x, **context, **gates, return_scores=True)
    >>> np.asarray(weights).tolist()
    [[0.5, 0.25], [0.25, 0.0]]

    Source: Wu & Ong 2021, "Context-Guided BERT for Targeted Aspect-Based Sentiment Analysis",
    quasi-attention (QACG-BERT).
    """
    quasi_scores = dot_products(
        ops.convert_to_tensor(query_context), ops.convert_to_tensor(key_context), scale
    )

    def weigh(scores: Tensor, mask: Tensor | None) -> Tensor:
        gate = 1 - (
            ops.expand_dims(as_dtype(query_gate, scores.dtype), -1)
            + ops.expand_dims(as_dtype(key_gate, scores.dtype), -2)
        )
        quasi = alpha * gate * ops.sigmoid(as_dtype(quasi_scores, scores.dtype))
        return masked_softmax(scores, mask) + zero_masked(quasi, mask)

    return dot_product_attention(
        query,
        key,
        value,
        mask,
        weigh,
        "context-guided weights",
        scale=scale,
        low_scores_delete=False,
        **options,
    )
