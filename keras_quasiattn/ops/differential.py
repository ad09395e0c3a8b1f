"""Differential attention: a softmax minus a fraction of another one, which cancels their noise."""

from typing import Any

from keras import ops

from keras_quasiattn.ops.masking import masked_softmax
from keras_quasiattn.ops.precision import as_dtype, compute_dtype, dot_products
from keras_quasiattn.ops.score_bias import add_score_bias, as_score_bias
from keras_quasiattn.ops.scored import dot_product_attention

Tensor = Any


def differential_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    subtracted: float | Tensor,
    output_scale: float | None = None,
    bias: Tensor | None = None,
    return_scores: bool = False,
    **options: Any,
) -> Tensor | tuple[Tensor, Tensor]:
    """The difference of two softmax attentions, by the two halves of the features.

    W = softmax(Q₁·K₁ᵀ/√D₁ + bias) − λ · softmax(Q₂·K₂ᵀ/√D₂ + bias);  output = W · value

    Q₁ and K₁ are the first D₁ = ⌈D/2⌉ features of `query` and `key`, Q₂ and K₂ the others. A row
    sums to 1 − λ. With λ = 0, W is the softmax of the first half. A masked pair has weight exactly
    0. A query with no key to attend to gives all zeros. W, and the normalization, are computed in
    float32 for 16-bit inputs.

    Args:
        query: (..., T, D), D ≥ 2.
        key: (..., S, D).
        value: (..., S, V).
        mask: boolean (or 0/1 integer) that broadcasts to (..., T, S); True = attend.
        subtracted: λ, a number or a tensor that broadcasts to (..., T, 1).
        output_scale: if given, each output vector is divided by its root mean square, and
            multiplied by this number.
        bias: floats that broadcast to (..., T, S), added to both products; None = no bias.
            −∞ hides the pair, as the mask does.
        return_scores: also return W, before dropout.
        **options: `is_causal`, `dropout` and `dropout_seed`, as for `ops.softmax_attention`.

    Returns:
        output (..., T, V) in the dtype of `value`, or (output, W) with W (..., T, S).

    Raises:
        ValueError: fewer than two features, and as `ops.softmax_attention`.

    Example:
    >>> import numpy as np
    >>> from keras_quasiattn import ops
    >>> x = np.eye(2)
    >>> _, weights = ops.differential_attention(x, x, x, subtracted=0.5, return_scores=True)
    >>> np.asarray(weights).round(3).tolist()
    [[0.481, 0.019], [0.366, 0.134]]

    Source: Ye et al. 2024, "Differential Transformer", eqs. 1 to 3.
    """
    query, key, value = (ops.convert_to_tensor(tensor) for tensor in (query, key, value))
    half = (query.shape[-1] + 1) // 2
    if half == query.shape[-1]:
        raise ValueError(
            "`query` must have at least 2 features, because each half has weights of its own. "
            f"Received: query.shape={tuple(query.shape)}"
        )
    other = query.shape[-1] - half
    second = dot_products(query[..., half:], key[..., half:], other**-0.5)

    def weigh(scores: Tensor, mask: Tensor | None) -> Tensor:
        others = add_score_bias(second, as_score_bias(bias, second.shape), mask)
        factor = as_dtype(subtracted, scores.dtype)
        return masked_softmax(scores, mask) - factor * masked_softmax(others, mask)

    dtype = compute_dtype(value)
    result = dot_product_attention(
        query[..., :half],
        key[..., :half],
        ops.cast(value, dtype),
        mask,
        weigh,
        "differential weights",
        scale=half**-0.5,
        bias=bias,
        return_scores=return_scores,
        **options,
    )
    output = result[0] if return_scores else result
    if output_scale is not None:
        output = output_scale * _normalized(output)
    output = ops.cast(output, value.dtype)
    return (output, ops.cast(result[1], value.dtype)) if return_scores else output


def _normalized(x: Tensor) -> Tensor:
    """Returns x / √(mean of x² over the last axis + ε); zeros stay zeros, with finite gradients."""
    # Not ops.mean: on JAX and PyTorch it rounds float64 to float32.
    mean = ops.sum(ops.square(x), axis=-1, keepdims=True) / x.shape[-1]
    return x / ops.sqrt(mean + 1e-5)
