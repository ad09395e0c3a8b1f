"""α-entmax: weights between a softmax (α = 1) and a sparsemax (α = 2)."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, ClassVar

import keras
from keras import ops

from keras_quasiattn.attention.base import ScoreAttention, dot_product_attention, register_attention
from keras_quasiattn.attention.multi_head import MultiHeadQuasiAttention
from keras_quasiattn.attention.sparsemax import sparse_weights
from keras_quasiattn.core.arguments import check, check_number, is_number
from keras_quasiattn.core.backend import maximum
from keras_quasiattn.core.masks import Mask, as_boolean_mask, masked_softmax
from keras_quasiattn.core.tensors import as_dtype, check_broadcast, compute_dtype

Tensor = Any
LEAST_ALPHA = 1.01  # below it, powers of 1/(α − 1) are too steep for float32


def entmax(
    scores: Tensor,
    mask: Tensor | None = None,
    alpha: float | Tensor = 1.5,
    *,
    up_to_two: bool = False,
) -> Tensor:
    """Compute weights that are a softmax for α = 1, a sparsemax for α = 2, and sparser above.

    p = max((α − 1)·z − τ, 0)^(1/(α − 1)), with τ such that p sums to 1

    τ is found by bisection and then Newton's method, to the precision of the floats. The gradients
    and their gradients are exact, for α too. A masked score has weight exactly 0, whatever its
    value. Each row sums to 1, except that a row without visible keys is all zeros, as in every
    attention of this package. NaN in a visible score gives NaN for any α. Computed in float32 for
    16-bit inputs.

    Args:
        scores: z, (..., S).
        mask: boolean (or 0/1 integer) that broadcasts to (..., S); True = visible.
            Defaults to None.
        alpha: α: 1 (softmax), a number of at least 1.01, or a tensor that broadcasts to (..., 1),
            in which lower values count as 1.01. For α above 2, and for tensors, finding τ takes
            several times as many steps. Defaults to 1.5.
        up_to_two: whether no value of a tensor is above 2, which saves these steps. Higher values
            then count as 2. Defaults to False.

    Returns:
        p (..., S), float64 if `scores` is, otherwise float32.

    Raises:
        ValueError: a float mask, a mask or an α of another shape, or an α out of range.

    Example:
    >>> for alpha in (1, 1.5, 2):
    ...     print(np.asarray(entmax(np.array([2.0, 1.0, -1.0]), alpha=alpha)).round(3).tolist())
    [0.705, 0.259, 0.035]
    [0.831, 0.169, 0.0]
    [1.0, 0.0, 0.0]

    Source: Peters, Niculae & Martins 2019, "Sparse Sequence-to-Sequence Models", eqs. 10 and 12,
    algorithms 1 and 2; the gradient of α: Correia et al. 2019, "Adaptively Sparse Transformers".
    """
    scores = ops.convert_to_tensor(scores)
    mask = as_boolean_mask(mask, "mask", scores.shape)
    scores = ops.cast(scores, compute_dtype(scores))
    if is_number(alpha):
        alpha = float(alpha)
        check_alpha(alpha)
        if alpha == 1:
            return masked_softmax(scores, mask)
        up_to_two = alpha <= 2
    else:
        check_broadcast(alpha, (*scores.shape[:-1], 1), "alpha", "a column of the scores")
        alpha = as_dtype(alpha, scores.dtype)
        least = as_dtype(LEAST_ALPHA, scores.dtype)
        alpha = ops.clip(alpha, LEAST_ALPHA, 2.0) if up_to_two else maximum(alpha, least)
    return sparse_weights(scores, mask, alpha, is_convex=up_to_two)


def entmax_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    alpha: float | Tensor = 1.5,
    up_to_two: bool = False,
    **options: Any,
) -> Tensor | tuple[Tensor, Tensor]:
    """Attend with weights that sum to 1; the larger α is, the more of them are exactly 0.

    W = entmax(scale · query · keyᵀ + bias, α) over the visible keys;  output = W · value

    Masks, precision and errors are as in `ops.softmax_attention`.

    Args:
        query: (..., T, D).
        key: (..., S, D).
        value: (..., S, V).
        mask: boolean (or 0/1 integer) that broadcasts to (..., T, S); True = attend.
            Defaults to None.
        alpha: as for `ops.entmax`; a tensor broadcasts to (..., T, 1). Defaults to 1.5.
        up_to_two: as for `ops.entmax`. Defaults to False.
        **options: as for `ops.softmax_attention`, from `scale` on.

    Returns:
        output (..., T, V) in the dtype of `value`, or (output, W) with W (..., T, S).

    Raises:
        ValueError: an α out of range or of another shape.

    Example:
    >>> query, key = np.ones((1, 1)), np.array([[2.0], [1.0], [-1.0]])
    >>> _, weights = entmax_attention(query, key, key, return_scores=True)
    >>> np.asarray(weights).round(3).tolist()
    [[0.831, 0.169, 0.0]]

    Source: Peters, Niculae & Martins 2019, "Sparse Sequence-to-Sequence Models", section 3.
    """

    def weigh(scores: Tensor, mask: Mask) -> Tensor:
        return entmax(scores, mask, alpha, up_to_two=up_to_two)

    return dot_product_attention(query, key, value, mask, weigh, "entmax weights", **options)


def check_alpha(alpha: float) -> None:
    """Raise a `ValueError` unless α is 1, or finite and at least 1.01."""
    fits = alpha == 1 or LEAST_ALPHA <= alpha < math.inf
    check(fits, alpha, "alpha", f"1, or a finite number of at least {LEAST_ALPHA}")


@dataclasses.dataclass
class Entmax(ScoreAttention):
    """Weights that are the entmax of the scores; `alpha` is as in `layers.MultiHeadEntmax`."""

    label = "entmax weights"
    search_space: ClassVar[Mapping[str, tuple[Any, ...]]] = {"alpha": (1.25, 1.5, 1.75)}

    alpha: float | str = 1.5

    def __post_init__(self) -> None:
        self.alpha = alpha = check_number(self.alpha, "alpha", "learned")
        if alpha != "learned":
            check_alpha(alpha)

    def make_weights(self, layer: Any, features: int, heads: int | None = None) -> dict[str, Any]:
        """Add a to `layer`, one number per head, if α is learned: α = 1 + sigmoid(a)."""
        if self.alpha != "learned":
            return {}
        shape = () if heads is None else (heads, 1, 1)
        return {"alpha": layer.add_weight(shape, "zeros", autocast=False, name="alpha_logit")}

    def weights(self, scores: Tensor, mask: Mask, learned: dict[str, Any]) -> Tensor:
        """Return the entmax of each row."""
        alpha = 1 + ops.sigmoid(learned["alpha"]) if learned else self.alpha
        return entmax(scores, mask, alpha, up_to_two=True)


@register_attention("entmax")
@keras.saving.register_keras_serializable(package="keras_quasiattn")
class MultiHeadEntmax(MultiHeadQuasiAttention):
    """`keras.layers.MultiHeadAttention` with weights between a softmax's and a sparsemax's.

    weights = entmax(q·kᵀ/√H, α) over the visible keys;  output = (weights·v)·W_o

    The larger α is, the more weights are exactly 0. All else is as in `layers.MultiHeadSoftmax`.

    Args:
        alpha: α: 1 (softmax), or at least 1.01; 2 is a sparsemax, and larger values are sparser
            still and take longer. "learned" means 1 + sigmoid(a) with a trainable a for each head,
            initially 1.5. Defaults to 1.5, which is faster than other values between 1 and 2.
        **arguments: as for `layers.MultiHeadQuasiAttention`.

    Returns:
        (B, T, features); with `return_attention_scores` also the weights (B, N, T, S).

    Raises:
        ValueError: an α out of range.

    Example:
    >>> x = np.ones((2, 5, 16), "float32")
    >>> tuple(MultiHeadEntmax(num_heads=2, key_dim=8)(x, x).shape)
    (2, 5, 16)

    Source: Peters, Niculae & Martins 2019, "Sparse Sequence-to-Sequence Models"; a learned α:
    Correia, Niculae & Martins 2019, "Adaptively Sparse Transformers".
    """

    options_class = Entmax
