"""ReLU attention: weights are rectified scores, divided by the number of keys."""

import dataclasses
from typing import Any

import keras
from keras import ops

from keras_quasiattn.attention.base import ScoreAttention, register_attention
from keras_quasiattn.attention.multi_head import MultiHeadQuasiAttention
from keras_quasiattn.core.masks import Mask, visible_count, zero_masked

Tensor = Any


def relu_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, **options: Any
) -> Tensor | tuple[Tensor, Tensor]:
    """Attend with weights that do not compete, are 0 for negative scores and have no upper limit.

    W = max(scale · query · keyᵀ + bias, 0) / n;  output = W · value

    n is the number of keys that the query attends to; in the paper it is the length of the
    sequence. Masked pairs do not count in n. All else is as in `ops.softmax_attention`.

    Args:
        query: (..., T, D).
        key: (..., S, D).
        value: (..., S, V).
        mask: boolean (or 0/1 integer) that broadcasts to (..., T, S); True = attend.
            Defaults to None.
        **options: as for `ops.softmax_attention`, from `scale` on.

    Returns:
        output (..., T, V) in the dtype of `value`, or (output, W) with W (..., T, S).

    Example:
    >>> query, key = np.ones((1, 1)), np.array([[2.0], [1.0], [-1.0], [0.0]])
    >>> _, weights = relu_attention(query, key, key, return_scores=True)
    >>> np.asarray(weights).tolist()
    [[0.5, 0.25, 0.0, 0.0]]

    Source: Wortsman et al. 2023, "Replacing softmax with ReLU in Vision Transformers", with the
    exponent 1 of the length.
    """
    return ReLU().compute(query, key, value, mask, **options)


@dataclasses.dataclass
class ReLU(ScoreAttention):
    """Weights are the positive scores divided by the number of keys; there are no options."""

    label = "relu weights"

    def weights(self, scores: Tensor, mask: Mask, learned: dict[str, Any]) -> Tensor:
        """Return max(score, 0) divided by the number of visible keys."""
        return zero_masked(ops.relu(scores) / visible_count(scores, mask), mask)


@register_attention("relu")
@keras.saving.register_keras_serializable(package="keras_quasiattn")
class MultiHeadReLU(MultiHeadQuasiAttention):
    """`keras.layers.MultiHeadAttention` with independent weights ≥ 0 without an upper limit.

    weights = max(q·kᵀ/√H, 0)/n over the n visible keys;  output = (weights·v)·W_o

    All else is as in `layers.MultiHeadSoftmax`.

    Args:
        **arguments: as for `layers.MultiHeadQuasiAttention`.

    Returns:
        (B, T, features); with `return_attention_scores` also the weights (B, N, T, S).

    Example:
    >>> x = np.ones((2, 5, 16), "float32")
    >>> tuple(MultiHeadReLU(num_heads=2, key_dim=8)(x, x).shape)
    (2, 5, 16)

    Source: Wortsman et al. 2023, "Replacing softmax with ReLU in Vision Transformers".
    """

    options_class = ReLU
