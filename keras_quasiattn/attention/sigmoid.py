"""Sigmoid attention: the weight of a key does not depend on the scores of other keys."""

import dataclasses
from typing import Any

import keras
from keras import ops

from keras_quasiattn.attention.base import ScoreAttention, register_attention
from keras_quasiattn.attention.multi_head import MultiHeadQuasiAttention
from keras_quasiattn.core.arguments import check_number
from keras_quasiattn.core.masks import Mask, visible_count, zero_masked
from keras_quasiattn.core.tensors import as_dtype

Tensor = Any


def sigmoid_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    score_bias: float | None = None,
    **options: Any,
) -> Tensor | tuple[Tensor, Tensor]:
    """Attend with weights that do not compete: each is between 0 and 1, whatever the other scores.

    W = sigmoid(scale · query · keyᵀ + bias + b);  output = W · value

    With b = −log n, where n is the number of keys the query attends to, the weights of a row with
    scores near 0 sum to about 1, as with softmax. Masked pairs do not count in n. Masks, precision
    and errors are as in `ops.softmax_attention`.

    Args:
        query: (..., T, D).
        key: (..., S, D).
        value: (..., S, V).
        mask: boolean (or 0/1 integer) that broadcasts to (..., T, S); True = attend.
            Defaults to None.
        score_bias: b, or None for −log n. Defaults to None.
        **options: as for `ops.softmax_attention`, from `scale` on.

    Returns:
        output (..., T, V) in the dtype of `value`, or (output, W) with W (..., T, S).

    Example:
    >>> x = np.zeros((1, 3, 2))
    >>> _, weights = sigmoid_attention(x, x, x, is_causal=True, return_scores=True)
    >>> np.asarray(weights)[0].round(3).tolist()
    [[0.5, 0.0, 0.0], [0.333, 0.333, 0.0], [0.25, 0.25, 0.25]]

    Source: Ramapuram et al. 2024, "Theory, Analysis, and Best Practices for Sigmoid
    Self-Attention".
    """
    return Sigmoid(score_bias).compute(query, key, value, mask, **options)


@dataclasses.dataclass
class Sigmoid(ScoreAttention):
    """Weights are the sigmoid of the scores plus `score_bias`; see `ops.sigmoid_attention`."""

    label = "sigmoid weights"

    score_bias: float | None = None

    def __post_init__(self) -> None:
        self.score_bias = check_number(self.score_bias, "score_bias", None)

    def weights(self, scores: Tensor, mask: Mask, learned: dict[str, Any]) -> Tensor:
        """Return the sigmoid of each score."""
        if self.score_bias is None:
            common = -ops.log(visible_count(scores, mask))
        else:
            common = as_dtype(self.score_bias, scores.dtype)
        return zero_masked(ops.sigmoid(scores + common), mask)


@register_attention("sigmoid")
@keras.saving.register_keras_serializable(package="keras_quasiattn")
class MultiHeadSigmoid(MultiHeadQuasiAttention):
    """`keras.layers.MultiHeadAttention` with independent weights: each is between 0 and 1.

    weights = sigmoid(q·kᵀ/√H + b) over the visible keys;  output = (weights·v)·W_o

    All else is as in `layers.MultiHeadSoftmax`.

    Args:
        score_bias: b. Defaults to None, which means −log n for a query that sees n keys; a row of
            weights then sums to about 1 when training begins.
        **arguments: as for `layers.MultiHeadQuasiAttention`.

    Returns:
        (B, T, features); with `return_attention_scores` also the weights (B, N, T, S).

    Raises:
        ValueError: a bias that is not a number.

    Example:
    >>> x = np.ones((2, 5, 16), "float32")
    >>> tuple(MultiHeadSigmoid(num_heads=2, key_dim=8)(x, x).shape)
    (2, 5, 16)

    Source: Ramapuram et al. 2024, "Theory, Analysis, and Best Practices for Sigmoid
    Self-Attention".
    """

    options_class = Sigmoid
