"""Softmax with a null: a query may attend to nothing, so weights sum to less than 1."""

import dataclasses
from typing import Any

import keras
from keras import ops

from keras_quasiattn.attention.base import ScoreAttention, register_attention
from keras_quasiattn.attention.multi_head import MultiHeadQuasiAttention
from keras_quasiattn.core.arguments import check_number
from keras_quasiattn.core.backend import maximum
from keras_quasiattn.core.masks import LOWEST, Mask, largest, lower_masked, zero_masked
from keras_quasiattn.core.tensors import as_dtype, check_broadcast

Tensor = Any


def null_softmax_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    null_score: float | Tensor = 0.0,
    **options: Any,
) -> Tensor | tuple[Tensor, Tensor]:
    """Apply softmax attention with one more key, the null, whose value is 0.

    E = scale · query · keyᵀ + bias;  W_ts = exp(E_ts) / (exp(b) + Σ_s exp(E_ts));
    output = W · value

    With b = 0 this is "softmax off by one", 1 + Σ in the denominator; with a learned b for each
    head, an attention sink. Each row sums to less than 1, and to nearly 0 if all its scores are far
    below b. Masks, precision and errors are as in `ops.softmax_attention`.

    Args:
        query: (..., T, D).
        key: (..., S, D).
        value: (..., S, V).
        mask: boolean (or 0/1 integer) that broadcasts to (..., T, S); True = attend.
            Defaults to None.
        null_score: b, a number or a tensor that broadcasts to (..., T, 1). Defaults to 0.
        **options: as for `ops.softmax_attention`, from `scale` on.

    Returns:
        output (..., T, V) in the dtype of `value`, or (output, W) with W (..., T, S).

    Raises:
        ValueError: a `null_score` of another shape.

    Example:
    >>> query, key = np.ones((1, 1)), np.zeros((3, 1))
    >>> _, weights = null_softmax_attention(query, key, key, return_scores=True)
    >>> np.asarray(weights).tolist()
    [[0.25, 0.25, 0.25]]

    Source: Miller 2023, "Attention Is Off By One"; a learned b: OpenAI 2025, "gpt-oss-120b &
    gpt-oss-20b Model Card".
    """
    learned = {"null_score": null_score}
    return NullSoftmax().compute(query, key, value, mask, learned=learned, **options)


@dataclasses.dataclass
class NullSoftmax(ScoreAttention):
    """Weights that are a softmax over the keys and a null."""

    label = "null softmax weights"

    null_score: float | str = 0.0

    def __post_init__(self) -> None:
        self.null_score = check_number(self.null_score, "null_score", "learned")

    def make_weights(self, layer: Any, features: int, heads: int | None = None) -> dict[str, Any]:
        """Add b to `layer` if it is "learned", one number per head."""
        if self.null_score != "learned":
            return {}
        shape = () if heads is None else (heads, 1, 1)
        return {"null_score": layer.add_weight(shape, "zeros", autocast=False, name="null_score")}

    def weights(self, scores: Tensor, mask: Mask, learned: dict[str, Any]) -> Tensor:
        """Return the softmax of each row, with the null in its denominator."""
        null = learned.get("null_score", self.null_score)
        check_broadcast(null, (*scores.shape[:-1], 1), "null_score", "a column of the scores")
        null = as_dtype(null, scores.dtype)
        scores = lower_masked(scores, mask)
        highest = maximum(ops.expand_dims(largest(scores, -1, LOWEST), -1), null)
        highest = ops.stop_gradient(highest)
        weights = zero_masked(ops.exp(scores - highest), mask)
        total = ops.exp(null - highest) + ops.sum(weights, axis=-1, keepdims=True)
        # 0 if b is −∞ and no key is visible.
        return weights / ops.where(total > 0, total, ops.ones_like(total))


@register_attention("null_softmax")
@keras.saving.register_keras_serializable(package="keras_quasiattn")
class MultiHeadNullSoftmax(MultiHeadQuasiAttention):
    """`keras.layers.MultiHeadAttention` whose heads may attend to nothing.

    weights = exp(q·kᵀ/√H) / (exp(b) + Σ exp(q·kᵀ/√H)) over the visible keys;
    output = (weights·v)·W_o

    A row of weights sums to less than 1: the rest is the weight of a null key, whose value is 0.
    All else is as in `layers.MultiHeadSoftmax`.

    Args:
        null_score: b. Defaults to 0.0, which adds 1 to the denominator ("softmax off by one").
            "learned" means a trainable b for each head, an attention sink, initially 0.
        **arguments: as for `layers.MultiHeadQuasiAttention`.

    Returns:
        (B, T, features); with `return_attention_scores` also the weights (B, N, T, S).

    Raises:
        ValueError: a `null_score` that is neither a number nor "learned".

    Example:
    >>> x = np.ones((2, 5, 16), "float32")
    >>> tuple(MultiHeadNullSoftmax(num_heads=2, key_dim=8)(x, x).shape)
    (2, 5, 16)

    Source: Miller 2023, "Attention Is Off By One"; a learned b: OpenAI 2025, "gpt-oss-120b &
    gpt-oss-20b Model Card".
    """

    options_class = NullSoftmax
