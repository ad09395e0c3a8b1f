"""Multi-head softmax attention to keys or to nothing, a drop-in for Keras' layer."""

import dataclasses
from typing import Any

import keras

from keras_quasiattn import ops
from keras_quasiattn.layers.shared.arguments import check_number
from keras_quasiattn.layers.shared.mechanisms import Mechanism, mechanism, multi_head_layer
from keras_quasiattn.layers.shared.multi_head_attention import MultiHeadQuasiAttention

Tensor = Any


@mechanism("null_softmax")
@dataclasses.dataclass
class NullSoftmax(Mechanism):
    """Weights are a softmax that may attend to nothing.

    `null_score` is as in `layers.MultiHeadNullSoftmax`.
    """

    op = ops.null_softmax_attention

    null_score: float | str = 0.0

    def __post_init__(self) -> None:
        check_number(self.null_score, "null_score", "learned")

    def make_weights(self, layer: Any, features: int, heads: int | None = None) -> dict[str, Any]:
        """Adds to `layer` b if it is "learned", one number per head."""
        if self.null_score != "learned":
            return {}
        shape = () if heads is None else (heads, 1, 1)
        return {"null_score": layer.add_weight(shape, "zeros", autocast=False, name="null_score")}


@multi_head_layer("null_softmax")
@keras.saving.register_keras_serializable(package="keras_quasiattn")
class MultiHeadNullSoftmax(MultiHeadQuasiAttention):
    """`keras.layers.MultiHeadAttention` whose heads may attend to nothing.

    weights = exp(q·kᵀ/√H) / (exp(b) + Σ exp(q·kᵀ/√H)) over the visible keys;
    output = (weights·v)·W_o

    A row of weights sums to less than 1: the rest is the weight of a null key, whose value is 0.

    The call, masks, scores, sublayer names and rows with nothing to attend to are as in
    `layers.MultiHeadSoftmax`.

    Args:
        *args: as for `keras.layers.MultiHeadAttention`: `num_heads`, `key_dim` and so on. There is
            no flash kernel: `flash_attention` must be None or False.
        null_score: b. Defaults to 0.0, which adds 1 to the denominator ("softmax off by one").
            "learned" means a trainable b for each head, an attention sink, from 0 at the start.
        **kwargs: as for `layers.MultiHeadSoftmax`.

    Returns:
        (B, T, features); with `return_attention_scores`, a tuple of that and the weights
        (B, N, T, S) before dropout.

    Raises:
        ValueError: a `null_score` that is neither a number nor "learned", a float mask, shapes that
            do not fit together, or `flash_attention=True`.

    Example:
    >>> import numpy as np
    >>> from keras_quasiattn.layers import MultiHeadNullSoftmax
    >>> x = np.ones((2, 5, 16), "float32")
    >>> tuple(MultiHeadNullSoftmax(num_heads=2, key_dim=8)(x, x).shape)
    (2, 5, 16)

    Source: Miller 2023, "Attention Is Off By One"; a learned b: OpenAI 2025, "gpt-oss-120b &
    gpt-oss-20b Model Card".
    """

    def __init__(self, *args: Any, null_score: float | str = 0.0, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._set_options(NullSoftmax(null_score))
