"""Scaled dot-product attention: the baseline, with the same rules for masks and precision."""

from typing import Any

from keras_quasiattn.ops.gates import gated_softmax
from keras_quasiattn.ops.masking import masked_softmax
from keras_quasiattn.ops.scored import Weigh, dot_product_attention, weighted_values

Tensor = Any


def softmax_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    scale: float = 1.0,
    is_causal: bool = False,
    dropout: float = 0.0,
    dropout_seed: Tensor | None = None,
    gates: Tensor | None = None,
    bias: Tensor | None = None,
    return_scores: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Softmax attention; a query with no key to attend to gives zeros, not the mean of the padding.

    A = softmax(scale · query · keyᵀ + bias) over the keys that `mask` shows;  output = A · value

    With gates, A is `ops.gated_softmax` of the same scores, which weights each key by its gate.

    Args:
        query: (..., T, D).
        key: (..., S, D).
        value: (..., S, V).
        mask: boolean (or 0/1 integer) that broadcasts to (..., T, S); True = attend.
        scale: factor of the dot products, usually 1/√D.
        is_causal: query i attends to keys 0 … i only.
        dropout: fraction of the weights set to 0; the rest are divided by 1 − `dropout`.
        dropout_seed: two integers from `keras.random.SeedGenerator.next()`; needed for dropout.
        gates: numbers in [0, 1] that broadcast to (..., T, S); default: all open.
        bias: floats that broadcast to (..., T, S), added to the scaled products; None = no bias.
            −∞ hides the pair, as the mask does. What it holds at a masked pair does not matter.
        return_scores: also return A, before dropout.

    Returns:
        output (..., T, V) in the dtype of `value`, or (output, A) with A (..., T, S).

    Raises:
        ValueError: a float mask, a bias without floats or of another shape, a rank below 2, lengths
            or feature counts that do not match, or dropout without a seed.

    Example:
    >>> import numpy as np
    >>> from keras_quasiattn import ops
    >>> x = np.ones((2, 5, 8), "float32")
    >>> tuple(ops.softmax_attention(x, x, x, scale=8**-0.5).shape)
    (2, 5, 8)

    Source: Vaswani et al. 2017, eq. 1; gates as in Xue et al. 2019, eq. 9.
    """
    return dot_product_attention(
        query,
        key,
        value,
        mask,
        _weigh(gates),
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
    """Softmax of scores (..., T, S) over the keys that a mask shows, then sums of `value`.

    Names, options and results are those of `scored.weighted_values`.
    """
    label = f"softmax {name.replace('_', ' of the ')}"
    return weighted_values(scores, value, mask, masked_softmax, label, name=name, **options)


def _weigh(gates: Tensor | None) -> Weigh:
    if gates is None:
        return masked_softmax
    return lambda scores, mask: gated_softmax(scores, gates, mask)
