"""Signed softmax ("cog" attention): a softmax of absolute scores, times the signs of the scores."""

import dataclasses
from typing import Any, ClassVar

import keras
from keras import ops

from keras_quasiattn.attention.base import ScoreAttention, register_attention
from keras_quasiattn.attention.multi_head import MultiHeadQuasiAttention
from keras_quasiattn.core.masks import Mask, masked_softmax, zero_masked

Tensor = Any


def signed_softmax_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, **options: Any
) -> Tensor | tuple[Tensor, Tensor]:
    """Attend by adding the values of positive scores and subtracting those of negative scores.

    E = scale · query · keyᵀ + bias;  W = sign(E) ⊙ softmax(|E|);  output = W · value

    The absolute weights of a row sum to 1, unless a score is exactly 0, whose weight is 0. A weight
    is discontinuous where its score changes sign. Masks and precision are as in
    `ops.softmax_attention`.

    Args:
        query: (..., T, D).
        key: (..., S, D).
        value: (..., S, V).
        mask: boolean (or 0/1 integer) that broadcasts to (..., T, S); True = attend.
            Defaults to None.
        **options: as for `ops.softmax_attention`, from `scale` on.

    Returns:
        output (..., T, V) in the dtype of `value`, or (output, W) with W (..., T, S).

    Raises:
        ValueError: a finite bias below −1e4, which does not delete a key (not checked in graphs).

    Example:
    >>> query, key = np.ones((1, 1)), np.array([[2.0], [-2.0], [1.0]])
    >>> _, weights = signed_softmax_attention(query, key, key, return_scores=True)
    >>> np.asarray(weights).round(3).tolist()
    [[0.422, -0.422, 0.155]]

    Source: Lv et al. 2024, "More Expressive Attention with Negative Weights" (Cog Attention).
    """
    return SignedSoftmax().compute(query, key, value, mask, **options)


@dataclasses.dataclass
class SignedSoftmax(ScoreAttention):
    """Weights are a softmax of the absolute scores times the signs of the scores."""

    label = "signed softmax weights"
    low_scores_delete: ClassVar[bool] = False
    further_per_pair: ClassVar[int] = 1  # the sign times the weight

    def weights(self, scores: Tensor, mask: Mask, learned: dict[str, Any]) -> Tensor:
        """Return the sign of each score times the softmax of the absolute scores."""
        signs = ops.sign(zero_masked(scores, mask))
        return signs * masked_softmax(ops.abs(scores), mask)


@register_attention("signed_softmax")
@keras.saving.register_keras_serializable(package="keras_quasiattn")
class MultiHeadSignedSoftmax(MultiHeadQuasiAttention):
    """`keras.layers.MultiHeadAttention` that subtracts the values of keys with negative scores.

    weights = sign(q·kᵀ) ⊙ softmax(|q·kᵀ|/√H) over the visible keys;  output = (weights·v)·W_o

    All else is as in `layers.MultiHeadSoftmax`, but an `attention_bias` that makes a score negative
    does not delete the key: its value is subtracted. −∞ hides the pair, and a finite bias below
    −1e4 is an error outside graphs.

    Args:
        **arguments: as for `layers.MultiHeadQuasiAttention`.

    Returns:
        (B, T, features); with `return_attention_scores` also the weights (B, N, T, S).

    Example:
    >>> x = np.ones((2, 5, 16), "float32")
    >>> tuple(MultiHeadSignedSoftmax(num_heads=2, key_dim=8)(x, x).shape)
    (2, 5, 16)

    Source: Lv et al. 2024, "More Expressive Attention with Negative Weights" (Cog Attention).
    """

    options_class = SignedSoftmax
