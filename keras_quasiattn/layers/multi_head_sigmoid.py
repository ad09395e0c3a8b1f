"""Multi-head sigmoid attention, a drop-in for `keras.layers.MultiHeadAttention`."""

import dataclasses
from typing import Any

import keras

from keras_quasiattn import ops
from keras_quasiattn.layers.shared.arguments import check_number
from keras_quasiattn.layers.shared.mechanisms import Mechanism, mechanism, multi_head_layer
from keras_quasiattn.layers.shared.multi_head_attention import MultiHeadQuasiAttention

Tensor = Any


@mechanism("sigmoid")
@dataclasses.dataclass
class Sigmoid(Mechanism):
    """Weights are the sigmoid of dot products; `score_bias` is as in `ops.sigmoid_attention`."""

    op = ops.sigmoid_attention

    score_bias: float | None = None

    def __post_init__(self) -> None:
        check_number(self.score_bias, "score_bias", None)


@multi_head_layer("sigmoid")
@keras.saving.register_keras_serializable(package="keras_quasiattn")
class MultiHeadSigmoid(MultiHeadQuasiAttention):
    """`keras.layers.MultiHeadAttention` with independent weights: each is between 0 and 1.

    weights = sigmoid(q·kᵀ/√H + b) over the visible keys;  output = (weights·v)·W_o

    The call, masks, scores, sublayer names and rows with nothing to attend to are as in
    `layers.MultiHeadSoftmax`.

    Args:
        *args: as for `keras.layers.MultiHeadAttention`: `num_heads`, `key_dim` and so on. There is
            no flash kernel: `flash_attention` must be None or False.
        score_bias: b. Defaults to None, which means −log n for a query that sees n keys; a row of
            weights then sums to about 1 when training begins.
        **kwargs: as for `layers.MultiHeadSoftmax`.

    Returns:
        (B, T, features); with `return_attention_scores`, a tuple of that and the weights
        (B, N, T, S) before dropout.

    Raises:
        ValueError: a bias that is not a number, a float mask, shapes that do not fit together, or
            `flash_attention=True`.

    Example:
    >>> import numpy as np
    >>> from keras_quasiattn.layers import MultiHeadSigmoid
    >>> x = np.ones((2, 5, 16), "float32")
    >>> tuple(MultiHeadSigmoid(num_heads=2, key_dim=8)(x, x).shape)
    (2, 5, 16)

    Source: Ramapuram et al. 2024, "Theory, Analysis, and Best Practices for Sigmoid
    Self-Attention".
    """

    def __init__(
        self,
        *args: Any,
        score_bias: float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self._set_options(Sigmoid(score_bias))
