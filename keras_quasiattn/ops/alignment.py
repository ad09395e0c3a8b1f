"""Softmax alignment of two sequences by the dot products of their projections."""

from typing import Any

from keras import ops

from keras_quasiattn.ops.checks import check_features
from keras_quasiattn.ops.masking import as_boolean_mask, pair_mask, prepare_cross_attention, sides
from keras_quasiattn.ops.precision import dot_products
from keras_quasiattn.ops.softmax import attend

Tensor = Any


def alignment_attention(
    u: Tensor, v: Tensor, values: Tensor, mask_v: Tensor | None = None, return_scores: bool = False
) -> Tensor | tuple[Tensor, Tensor]:
    """For every position of one sequence, the other's values weighted by how well they match.

    a = u · vᵀ;  w = softmax(a) over the positions that `mask_v` shows;  output = w · values

    The scores are not scaled, as in the paper. A masked position has weight exactly 0 and its
    content has no effect; if every position is masked, the output is all zeros. Weights are
    computed in float32 for 16-bit inputs.

    Args:
        u: (..., T, D), already projected.
        v: (..., S, D), already projected.
        values: (..., S, V).
        mask_v: boolean (or 0/1 integer) (..., S), True = real.
        return_scores: also return w.

    Returns:
        output (..., T, V) in the dtype of `values`, or (output, w) with w (..., T, S).

    Raises:
        ValueError: a float mask, a rank below 2, or lengths or feature counts that do not match.

    Example:
    >>> import numpy as np
    >>> from keras_quasiattn import ops
    >>> u, v, mask = np.eye(2)[None], 9 * np.eye(3, 2)[None], np.array([[1, 1, 0]])
    >>> _, weights = ops.alignment_attention(u, v, v, mask, return_scores=True)
    >>> np.asarray(weights).round(2).tolist()
    [[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]]

    Source: Mitra 2019, "Conflict as an Inverse of Attention in Sequence Relationship", eqs. 2–4.
    """
    u, v, values, mask = prepare_cross_attention(u, v, values, mask_v)
    return attend(dot_products(u, v), values, mask, return_scores=return_scores)


def alignment_pair(
    a: Tensor,
    b: Tensor,
    mask_a: Tensor | None = None,
    mask_b: Tensor | None = None,
    *,
    value_a: Tensor | None = None,
    value_b: Tensor | None = None,
    return_scores: bool = False,
) -> tuple[Tensor, ...]:
    """Soft alignment of two sequences: one matrix of dot products, one softmax per direction.

    E = a · bᵀ;  β = softmax over S of E, times value_b;  α = (softmax over T of E)ᵀ, times value_a

    The softmax counterpart of `ops.coda_pair`. A masked position has weight exactly 0 for the other
    sequence, its own row of the output is exactly 0, and its content has no effect.

    Args:
        a: (..., T, D), F(a) in the paper.
        b: (..., S, D), F(b).
        mask_a: boolean (or 0/1 integer) (..., T), True = real.
        mask_b: boolean (or 0/1 integer) (..., S), True = real.
        value_a: (..., T, V), what α pools; default: `a`.
        value_b: (..., S, V), what β pools; default: `b`.
        return_scores: also return the weights of both softmaxes.

    Returns:
        (β, α) of shapes (..., T, V) and (..., S, V), or (β, α, W_β, W_α). Both weights are
        (..., T, S): the rows of W_β and the columns of W_α sum to 1.

    Raises:
        ValueError: a float mask, a rank below 2, or lengths or feature counts that do not match.

    Example:
    >>> import numpy as np
    >>> from keras_quasiattn import ops
    >>> beta, alpha = ops.alignment_pair(
    ...     np.ones((2, 3, 4), "float32"), np.ones((2, 5, 4), "float32")
    ... )
    >>> tuple(beta.shape), tuple(alpha.shape)
    ((2, 3, 4), (2, 5, 4))

    Source: Parikh et al. 2016, "A Decomposable Attention Model", eqs. 1 and 2.
    """
    mask_a, mask_b = as_boolean_mask(mask_a, "mask_a"), as_boolean_mask(mask_b, "mask_b")
    a, value_a = sides("a", a, mask_a, value_a=value_a)
    b, value_b = sides("b", b, mask_b, value_b=value_b)
    check_features(a, b, "a", "b")
    products = dot_products(a, b)  # (..., T, S)
    beta, to_b = attend(
        products, value_b, pair_mask(mask_a, mask_b), return_scores=True, name="weights_first"
    )
    products = ops.swapaxes(products, -1, -2)  # (..., S, T)
    alpha, to_a = attend(
        products, value_a, pair_mask(mask_b, mask_a), return_scores=True, name="weights_second"
    )
    return (beta, alpha, to_b, ops.swapaxes(to_a, -1, -2)) if return_scores else (beta, alpha)
