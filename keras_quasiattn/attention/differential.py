"""Differential attention: a softmax minus a fraction of another, which cancels common noise."""

import dataclasses
import math
from typing import Any, ClassVar

import keras
from keras import ops

from keras_quasiattn.attention.base import Attention, dot_product_attention, register_attention
from keras_quasiattn.attention.multi_head import MultiHeadQuasiAttention
from keras_quasiattn.core.arguments import check_positive_integer, check_shape
from keras_quasiattn.core.backend import maximum
from keras_quasiattn.core.masks import Mask, largest, masked_softmax
from keras_quasiattn.core.score_bias import add_score_bias, as_score_bias
from keras_quasiattn.core.tensors import (
    as_dtype,
    as_floats,
    check_broadcast,
    check_features,
    compute_dtype,
    dot_products,
)

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
    """Return the difference of two softmax attentions of the two halves of the features.

    W = softmax(Q₁·K₁ᵀ/√D₁ + bias) − λ · softmax(Q₂·K₂ᵀ/√D₂ + bias);  output = W · value

    Q₁ and K₁ are the first D₁ = ⌈D/2⌉ features of `query` and `key`, Q₂ and K₂ the others. A row
    sums to 1 − λ. With λ = 0, W is the softmax of the first half. Masks, precision and errors are
    as in `ops.softmax_attention`.

    Args:
        query: (..., T, D), D ≥ 2.
        key: (..., S, D).
        value: (..., S, V).
        mask: boolean (or 0/1 integer) that broadcasts to (..., T, S); True = attend.
            Defaults to None.
        subtracted: λ, a number or a tensor that broadcasts to (..., T, 1).
        output_scale: if given, each output vector is divided by its root mean square, and
            multiplied by this number. Defaults to None.
        bias: floats that broadcast to (..., T, S), added to both products; None = no bias.
            −∞ hides the pair, as the mask does. Defaults to None.
        return_scores: also return W, before dropout. Defaults to False.
        **options: `is_causal`, `dropout` and `dropout_seed`, as for `ops.softmax_attention`.

    Returns:
        output (..., T, V) in the dtype of `value`, or (output, W) with W (..., T, S).

    Raises:
        ValueError: fewer than two features, sizes that do not match, or a λ of another shape.

    Example:
    >>> x = np.eye(2)
    >>> _, weights = differential_attention(x, x, x, subtracted=0.5, return_scores=True)
    >>> np.asarray(weights).round(3).tolist()
    [[0.481, 0.019], [0.366, 0.134]]

    Source: Ye et al. 2024, "Differential Transformer", eqs. 1 to 3.
    """
    query, key, value = map(as_floats, (query, key, value))
    check_features(query, key, "query", "key")
    half = (query.shape[-1] + 1) // 2
    expected = "at least 2 features, because each half has its own weights"
    check_shape(half < query.shape[-1], query.shape, "query", expected)
    other = query.shape[-1] - half
    second = dot_products(query[..., half:], key[..., half:], other**-0.5)

    def weigh(scores: Tensor, mask: Mask) -> Tensor:
        column = (*scores.shape[:-1], 1)
        check_broadcast(subtracted, column, "subtracted", "a column of the scores")
        others = second
        if bias is not None:
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
    """Return x / √(mean of x² over the last axis + ε); zeros stay zeros, with finite gradients."""
    # Divided first by its largest number, if that is above 1: squares of large numbers overflow.
    size = ops.stop_gradient(ops.expand_dims(largest(ops.abs(x), -1, 1.0), -1))
    size = maximum(size, as_dtype(1.0, x.dtype))
    x = x / size
    # Not ops.mean: on JAX and PyTorch it rounds float64 to float32.
    mean = ops.sum(ops.square(x), axis=-1, keepdims=True) / x.shape[-1]
    return x / ops.sqrt(mean + 1e-5 / size / size)


@dataclasses.dataclass
class Differential(Attention):
    """Weights are the difference of two softmaxes, one for each half of two or more features."""

    score_parts: ClassVar[int] = 2
    further_per_pair: ClassVar[int] = 1  # λ times the second weight

    depth: int = 1

    def __post_init__(self) -> None:
        check_positive_integer(self.depth, "depth")

    def make_weights(self, layer: Any, features: int, heads: int | None = None) -> dict[str, Any]:
        """Add the four vectors of λ, which the heads share, to `layer`."""
        half = (features + 1) // 2
        sizes = {1: half, 2: features - half}

        def add(name: str, size: int) -> Any:
            initializer = keras.initializers.RandomNormal(stddev=0.1)
            return layer.add_weight((size,), initializer, autocast=False, name=f"lambda_{name}")

        names = [(f"{side}_{part}", part) for part in sizes for side in ("query", "key")]
        return {name: add(name, sizes[part]) for name, part in names}

    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Mask, **options: Any) -> Any:
        """Compute λ, and attend; the scale follows from the size of each half."""
        learned = options.pop("learned")
        options.pop("scale", None)
        products = [learned[f"query_{part}"] * learned[f"key_{part}"] for part in (1, 2)]
        first, second = (ops.exp(ops.sum(product)) for product in products)
        start = 0.8 - 0.6 * math.exp(-0.3 * (self.depth - 1))
        return differential_attention(
            query,
            key,
            value,
            mask,
            subtracted=first - second + start,
            output_scale=1 - start,
            **options,
        )


@register_attention("differential")
@keras.saving.register_keras_serializable(package="keras_quasiattn")
class MultiHeadDifferential(MultiHeadQuasiAttention):
    """`keras.layers.MultiHeadAttention` whose weights are a softmax minus a fraction of another.

    weights = softmax(q₁·k₁ᵀ/√H₁) − λ·softmax(q₂·k₂ᵀ/√H₂) over the visible keys, where q₁ and k₁ are
    the first half of a head's features, and q₂ and k₂ the second;
    λ = exp(λ_q1·λ_k1) − exp(λ_q2·λ_k2) + λ₀ with learned vectors, which the heads share;
    λ₀ = 0.8 − 0.6·exp(−0.3·(depth − 1));
    output = ((1 − λ₀)·(weights·v)/rms(weights·v))·W_o, normalized for each head and query

    Whatever both softmaxes have in common, such as a little weight on every key, cancels. In the
    paper the layer has half as many heads as the layer it replaces, each with twice the features.
    `swap_attention` keeps the number and the size of heads, so each half has half of the features.
    The paper's normalization also has a learned factor for each feature, which W_o makes redundant.
    All else is as in `layers.MultiHeadSoftmax`.

    Args:
        depth: the number of the layer in its stack, counted from 1; λ starts near λ₀. Transformers
            in `models` set it. Defaults to 1.
        **arguments: as for `layers.MultiHeadQuasiAttention`.

    Returns:
        (B, T, features); with `return_attention_scores` also the weights (B, N, T, S).

    Raises:
        ValueError: a `depth` that is not a positive integer, or `key_dim=1`.

    Example:
    >>> x = np.ones((2, 5, 16), "float32")
    >>> tuple(MultiHeadDifferential(num_heads=2, key_dim=8)(x, x).shape)
    (2, 5, 16)

    Source: Ye et al. 2024, "Differential Transformer", eqs. 1 to 3.
    """

    options_class = Differential
