"""Attention in both directions between a passage and a question (BiDAF)."""

from typing import Any

from keras import ops

from keras_quasiattn.ops.checks import check_features
from keras_quasiattn.ops.masking import (
    as_boolean_mask,
    combine_masks,
    largest,
    pair_mask,
    sides,
    zero_masked,
)
from keras_quasiattn.ops.precision import dot_products
from keras_quasiattn.ops.softmax import attend

Tensor = Any
# About the lowest float32: a maximum over only masked positions stays finite until it is zeroed.
_LOWEST = -3.4e38


def attention_flow(
    u: Tensor,
    v: Tensor,
    values_u: Tensor,
    values_v: Tensor,
    mask_u: Tensor | None = None,
    mask_v: Tensor | None = None,
    return_scores: bool = False,
) -> tuple[Tensor, ...]:
    """Attends from each position of u to v, and pools the positions of u that match v best.

    E = u · vᵀ;  ũ = softmax over S of E, times values_v;
    h = softmax over T of (max over S of E), times values_u

    A masked position has weight exactly 0 and its content has no effect; its own row of ũ is
    exactly 0. If either sequence has no real position, ũ and h are all zeros. Weights are computed
    in float32 for 16-bit inputs.

    Args:
        u: (..., T, D), the passage, already projected.
        v: (..., S, D), the question, already projected.
        values_u: (..., T, V).
        values_v: (..., S, W).
        mask_u: boolean (or 0/1 integer) (..., T), True = real.
        mask_v: boolean (or 0/1 integer) (..., S), True = real.
        return_scores: also return the weights over v.

    Returns:
        (ũ, h) of shapes (..., T, W) and (..., 1, V), or (ũ, h, weights) with weights (..., T, S).

    Raises:
        ValueError: a float mask, a rank below 2, or lengths or feature counts that do not match.

    Example:
    >>> import numpy as np
    >>> from keras_quasiattn import ops
    >>> u, v = np.ones((2, 3, 8), "float32"), np.ones((2, 5, 8), "float32")
    >>> [tuple(x.shape) for x in ops.attention_flow(u, v, u, v)]
    [(2, 3, 8), (2, 1, 8)]

    Source: Seo et al. 2017, "Bidirectional Attention Flow for Machine Comprehension", §2.4.
    """
    mask_u, mask_v = as_boolean_mask(mask_u, "mask_u"), as_boolean_mask(mask_v, "mask_v")
    u, values_u = sides("u", u, mask_u, values=values_u)
    v, values_v = sides("v", v, mask_v, values=values_v)
    check_features(u, v, "u", "v")
    products = dot_products(u, v)  # (..., T, S)
    both = pair_mask(mask_u, mask_v)
    shown = (
        products if both is None else ops.where(both, products, ops.cast(_LOWEST, products.dtype))
    )
    best = largest(shown, axis=-1, lowest=_LOWEST)  # (..., T)
    # (..., 1): whether v has a real position at all.
    real = ops.any(
        ops.ones_like(v[..., 0], dtype="bool") if mask_v is None else mask_v, axis=-1, keepdims=True
    )
    rows = combine_masks(ops.broadcast_to(real, ops.shape(best)), mask_u)
    best = zero_masked(best, rows)
    # Pooled with one row of scores, (..., 1, T): (..., 1, V).
    matters = attend(
        ops.expand_dims(best, -2), values_u, ops.expand_dims(rows, -2), name="weights_best"
    )
    found, weights = attend(products, values_v, both, return_scores=True)
    return (found, matters, weights) if return_scores else (found, matters)
