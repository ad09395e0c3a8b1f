"""The feed-forward half of a Transformer block."""

from functools import partial
from typing import Any

import keras

from keras_quasiattn.core.arguments import (
    check_activation,
    check_positive_integer,
    check_rate,
    check_sequence,
)
from keras_quasiattn.core.masks import check_sequence_mask, on_finite_rows
from keras_quasiattn.core.tensors import check_choice
from keras_quasiattn.layers.base import SequenceLayer
from keras_quasiattn.layers.dense import LayerNormalization, make_dense

Tensor = Any


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class FeedForward(SequenceLayer):
    """Apply two dense layers at each position, with layer normalization and a residual connection.

    output = x + Dropout(W2 · Dropout(activation(W1 · LayerNorm(x) + b1)) + b2)

    With `normalize_first=False`: output = LayerNorm(x + Dropout(W2 · … (W1 · x + b1) + b2)). The
    mask is passed on, but does not change the output.

    Args:
        intermediate_dim: positive integer, width between the two dense layers.
        dropout: rate in [0, 1) of both dropouts. Defaults to 0.
        activation: activation between the dense layers. Defaults to "relu".
        layer_norm_epsilon: number added to the variance. Defaults to 1e-6.
        kernel_initializer: initializer of both kernels. Defaults to "glorot_uniform".
        normalize_first: True normalizes the input of the dense layers (pre-norm), False the sum
            (post-norm). Defaults to True.

    Call arguments:
        inputs: (B, T, D).
        mask: boolean (B, T), True = real.
        training: whether to apply dropout.
        isolate_rows: whether NaN in a row must stay out of the gradients of the weights, unless the
            loss depends on that row. Blocks set it if attention hides positions. Defaults to False.

    Returns:
        (B, T, D).

    Raises:
        ValueError: an argument out of range, inputs that are not of rank 3, or a float mask.

    Example:
    >>> layer = FeedForward(intermediate_dim=64)
    >>> layer(keras.ops.ones((2, 5, 16))).shape == (2, 5, 16)
    True

    Source: Vaswani et al. 2017, "Attention Is All You Need", eq. 2, post-norm; pre-norm as in
    Tensor2Tensor.
    """

    def __init__(
        self,
        intermediate_dim: int,
        dropout: float = 0.0,
        activation: Any = "relu",
        layer_norm_epsilon: float = 1e-6,
        kernel_initializer: Any = "glorot_uniform",
        normalize_first: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.intermediate_dim = check_positive_integer(intermediate_dim, "intermediate_dim")
        self.dropout = check_rate(dropout, "dropout")
        self.activation = check_activation(activation, "activation")
        self.layer_norm_epsilon = layer_norm_epsilon
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.normalize_first = check_choice(normalize_first, (True, False), "normalize_first")

    def build(self, inputs_shape: tuple[int | None, ...]) -> None:
        """Create the layer norm, both dense layers and both dropouts."""
        width = check_sequence(inputs_shape, "inputs")
        dtype, inner = self.dtype_policy, self.intermediate_dim
        self.norm = LayerNormalization(epsilon=self.layer_norm_epsilon, dtype=dtype, name="norm")
        self.intermediate_dense = make_dense(
            self, "intermediate_dense", inner, inputs_shape, activation=self.activation
        )
        make = partial(keras.layers.Dropout, self.dropout, dtype=dtype)
        self.intermediate_dropout = make(name="intermediate_dropout")
        self.output_dense = make_dense(self, "output_dense", width, (*inputs_shape[:-1], inner))
        self.output_dropout = make(name="output_dropout")
        self.norm.build(inputs_shape)

    def call(
        self,
        inputs: Tensor,
        mask: Tensor | None = None,
        training: bool | None = None,
        isolate_rows: bool = False,
    ) -> Tensor:
        """Apply the layer; see the class."""
        check_sequence_mask(mask, "mask", inputs)
        inputs = keras.ops.cast(inputs, self.compute_dtype)  # Keras does not cast integers
        if isolate_rows:
            return on_finite_rows(partial(self._apply, training=training), inputs)
        return self._apply(inputs, training)

    def _apply(self, inputs: Tensor, training: bool | None) -> Tensor:
        x = self.norm(inputs) if self.normalize_first else inputs
        # (B, T, D) to (B, T, intermediate_dim), and back
        x = self.intermediate_dropout(self.intermediate_dense(x), training=training)
        x = inputs + self.output_dropout(self.output_dense(x), training=training)
        return x if self.normalize_first else self.norm(x)
