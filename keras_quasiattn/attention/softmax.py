"""Scaled dot-product attention: the baseline, with the same rules for masks and precision."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import keras
from keras import ops

from keras_quasiattn.attention.base import (
    Factor,
    ScoreAttention,
    check_factor,
    dot_product_attention,
    factor,
    factor_weights,
    register_attention,
    weighted_values,
)
from keras_quasiattn.attention.gated import gated_softmax
from keras_quasiattn.attention.multi_head import MultiHeadQuasiAttention
from keras_quasiattn.core.masks import Mask, masked_softmax, pair_mask, sides
from keras_quasiattn.core.tensors import as_dtype, check_broadcast, check_features, dot_products

Tensor = Any


def softmax_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    gates: Tensor | None = None,
    scale: float = 1.0,
    is_causal: bool = False,
    dropout: float = 0.0,
    dropout_seed: Tensor | None = None,
    bias: Tensor | None = None,
    return_scores: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Apply softmax attention; a query with no key gives zeros, not the mean of the padding.

    A = softmax(scale · query · keyᵀ + bias) over the keys that `mask` shows;  output = A · value

    With gates, A is `ops.gated_softmax` of the same scores, which weights each key by its gate. A
    masked pair has weight exactly 0. A is computed in float32 for 16-bit inputs; integers become
    floats.

    Args:
        query: (..., T, D).
        key: (..., S, D).
        value: (..., S, V).
        mask: boolean (or 0/1 integer) that broadcasts to (..., T, S); True = attend.
            Defaults to None.
        gates: numbers in [0, 1] that broadcast to (..., T, S); default: all open.
        scale: factor of the dot products, usually 1/√D. Defaults to 1.
        is_causal: query i attends to keys 0 … i only. Defaults to False.
        dropout: fraction of the weights set to 0; the rest are divided by 1 − `dropout`. Defaults
            to 0.
        dropout_seed: two integers from `keras.random.SeedGenerator.next()`; needed for dropout.
            Defaults to None.
        bias: floats that broadcast to (..., T, S), added to the scaled products; None = no bias.
            −∞ hides the pair, as the mask does. What it holds at a masked pair does not matter.
            Defaults to None.
        return_scores: also return A, before dropout. Defaults to False.

    Returns:
        output (..., T, V) in the dtype of `value`, or (output, A) with A (..., T, S).

    Raises:
        ValueError: a float mask, a bias without floats, a mask, bias or gates of another shape, a
            rank below 2, lengths or feature counts that do not match, or dropout without a seed.

    Example:
    >>> x = np.ones((2, 5, 8), "float32")
    >>> tuple(softmax_attention(x, x, x, scale=8**-0.5).shape)
    (2, 5, 8)

    Source: Vaswani et al. 2017, eq. 1; gates as in Xue et al. 2019, eq. 9.
    """

    def weigh(scores: Tensor, mask: Mask) -> Tensor:
        if gates is None:
            return masked_softmax(scores, mask)
        opened = ops.convert_to_tensor(gates)
        check_broadcast(opened, scores.shape, "gates", "the scores")
        return gated_softmax(scores, opened, mask)

    return dot_product_attention(
        query,
        key,
        value,
        mask,
        weigh,
        "softmax weights",
        scale=scale,
        is_causal=is_causal,
        dropout=dropout,
        dropout_seed=dropout_seed,
        bias=bias,
        return_scores=return_scores,
    )


def attend(
    scores: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    name: str = "weights",
    **options: Any,
) -> Tensor | tuple[Tensor, Tensor]:
    """Sum `value` with a softmax of scores (..., T, S); options are as for `weighted_values`."""
    label = f"softmax {name.replace('_', ' of the ')}"
    return weighted_values(scores, value, mask, masked_softmax, label, name=name, **options)


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
    """Align two sequences: one matrix of dot products, one softmax per direction.

    E = a · bᵀ;  β = softmax over S of E, times value_b;  α = (softmax over T of E)ᵀ, times value_a

    The softmax counterpart of `ops.coda_pair`. A masked position has weight exactly 0 for the other
    sequence, its own row of the output is exactly 0, and its content has no effect.

    Args:
        a: (..., T, D), F(a) in the paper.
        b: (..., S, D), F(b).
        mask_a: boolean (or 0/1 integer) (..., T), True = real. Defaults to None.
        mask_b: boolean (or 0/1 integer) (..., S), True = real. Defaults to None.
        value_a: (..., T, V), what α pools; default: `a`.
        value_b: (..., S, V), what β pools; default: `b`.
        return_scores: also return the weights of both softmaxes. Defaults to False.

    Returns:
        (β, α) of shapes (..., T, V) and (..., S, V), or (β, α, W_β, W_α). Both weights are
        (..., T, S): the rows of W_β and the columns of W_α sum to 1.

    Raises:
        ValueError: a float mask, a rank below 2, or lengths or feature counts that do not match.

    Example:
    >>> beta, alpha = alignment_pair(
    ...     np.ones((2, 3, 4), "float32"), np.ones((2, 5, 4), "float32")
    ... )
    >>> tuple(beta.shape), tuple(alpha.shape)
    ((2, 3, 4), (2, 5, 4))

    Source: Parikh et al. 2016, "A Decomposable Attention Model", eqs. 1 and 2.
    """
    mask_a, a, value_a = sides("a", a, "mask_a", mask_a, value_a=value_a)
    mask_b, b, value_b = sides("b", b, "mask_b", mask_b, value_b=value_b)
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


@dataclasses.dataclass
class Softmax(ScoreAttention):
    """Weights that are the softmax of the scores; `alpha` is as in `layers.MultiHeadSoftmax`."""

    label = "softmax weights"
    search_space: ClassVar[Mapping[str, tuple[Any, ...]]] = {"alpha": (0.5, 1.0, 2.0)}

    alpha: Factor = 1.0

    def __post_init__(self) -> None:
        self.alpha = check_factor(self.alpha, "alpha")

    def make_weights(self, layer: Any, features: int, heads: int | None = None) -> dict[str, Any]:
        """Add a weight for α, one number per head, if it is "learned"."""
        return factor_weights(layer, () if heads is None else (heads, 1, 1), alpha=self.alpha)

    def attend(
        self, query: Tensor, *arguments: Any, learned: dict[str, Any], **options: Any
    ) -> Any:
        """Attend from α times the queries; see `Attention.attend`."""
        return super().attend(self._scaled(query, learned), *arguments, learned=learned, **options)

    def _scaled(self, query: Tensor, learned: dict[str, Any]) -> Tensor:
        if self.alpha == 1:
            return query
        # In the factor's own float32, so that 16 bits round neither it nor the sum of its gradient.
        scaled = ops.multiply(query, factor(self.alpha, learned.get("alpha"), 1.0))
        return as_dtype(scaled, query.dtype)

    def weights(self, scores: Tensor, mask: Mask, learned: dict[str, Any]) -> Tensor:
        """Return the softmax of each row."""
        return masked_softmax(scores, mask)

    def pair(
        self, a: Tensor, b: Tensor, mask_a: Mask, mask_b: Mask, **options: Any
    ) -> tuple[Tensor, ...]:
        """Align in both directions with `ops.alignment_pair`, which computes dot products once."""
        a = self._scaled(a, options.pop("learned"))
        options.pop("scale", None)
        return alignment_pair(a, b, mask_a, mask_b, **options)


@register_attention("softmax")
@keras.saving.register_keras_serializable(package="keras_quasiattn")
class MultiHeadSoftmax(MultiHeadQuasiAttention):
    """`keras.layers.MultiHeadAttention` with the same weights but this package's mask rules.

    weights = softmax(α·q·kᵀ/√H + bias) over the visible keys;  output = (weights·v)·W_o

    Only masks and initial kernels differ from Keras' layer: a float mask is an error, explicit
    masks override implicit ones, a row with nothing to attend to gives exact zeros where Keras
    averages the padding, and each kernel is drawn as a matrix (inputs, outputs). The bias is 0
    unless a call passes `attention_bias`: floats that broadcast to (B, N, T, S). Its values at
    masked pairs are ignored. A bias of −∞ hides the pair, as a mask does.

    Args:
        alpha: factor of the products: a number ≥ 0, 1 by default, or "learned" for one factor per
            head, starting at 1.
        **arguments: as for `layers.MultiHeadQuasiAttention`.

    Returns:
        (B, T, features); with `return_attention_scores` also the weights (B, N, T, S).

    Raises:
        ValueError: a float mask, a bias without floats, shapes that do not fit together, or
            `flash_attention=True`.

    Example:
    >>> x = np.ones((2, 5, 16), "float32")
    >>> tuple(MultiHeadSoftmax(num_heads=2, key_dim=8)(x, x).shape)
    (2, 5, 16)

    Source: Vaswani et al. 2017, eq. 1.
    """

    options_class = Softmax
