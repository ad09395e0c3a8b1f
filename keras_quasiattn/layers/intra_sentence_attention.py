"""Attention of a sentence to itself, applied before it is compared with another."""

from typing import Any

import keras

from keras_quasiattn import ops
from keras_quasiattn.layers.shared.arguments import (
    check_sequence,
    check_sequence_mask,
    sequence_mask,
)
from keras_quasiattn.layers.shared.dense_stack import DenseStack
from keras_quasiattn.layers.shared.quantized_parts import QuantizedParts
from keras_quasiattn.ops.checks import check_choice
from keras_quasiattn.ops.masking import zero_padding

Tensor = Any
Shape = tuple[int | None, ...]


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class IntraSentenceAttention(QuantizedParts, keras.layers.Layer):
    """Appends to every word of a sentence a weighted sum of related words: [x; x'].

    f[i, j] = F(x_i)·F(x_j) + d[i − j];  x' = softmax(f)·x

    d is learned, one number per distance. All distances beyond `max_distance` share one number, or
    one on each side if `signed`. Distances count real positions only. Masked positions get weight
    exactly 0, their own output rows are exactly 0, and values there, NaN included, have no effect.
    The output keeps the mask.

    Args:
        units: size of the layers of F.
        num_layers: number of layers of F. Each consists of dropout, a dense layer and ReLU.
        dropout: dropout rate in F, in [0, 1).
        kernel_initializer: initializer of the kernels of F.
        max_distance: largest distance, in positions, that has its own bias.
        signed: whether preceding and following words have separate biases.
        **kwargs: arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        inputs: (B, T, D), x.
        mask: boolean (or 0/1 integer) (B, T), True = real. Defaults to the mask Keras attached to
            `inputs`.
        training: whether to apply dropout.
        return_attention_scores: also return softmax(f).

    Returns:
        (B, T, 2·D), or that and the weights (B, T, T).

    Raises:
        ValueError: an argument is out of range, the mask holds floats, or the inputs are not
            (B, T, D).

    Example:
    >>> import numpy as np
    >>> from keras_quasiattn.layers import IntraSentenceAttention
    >>> tuple(IntraSentenceAttention(units=16)(np.ones((2, 5, 8), "float32")).shape)
    (2, 5, 16)

    Source: Parikh et al. 2016, "A Decomposable Attention Model", §3.4, which does not say whether d
    is signed.
    """

    def __init__(
        self,
        units: int = 200,
        *,
        num_layers: int = 2,
        dropout: float = 0.0,
        kernel_initializer: Any = "glorot_uniform",
        max_distance: int = 10,
        signed: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.units, self.num_layers, self.dropout = units, num_layers, dropout
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        if not isinstance(max_distance, int) or max_distance < 0:
            raise ValueError(
                f"`max_distance` must be an integer ≥ 0. Received: max_distance={max_distance!r}"
            )
        check_choice(signed, (False, True), "signed")
        self.max_distance, self.signed = max_distance, signed
        self.network = DenseStack(
            units, num_layers, dropout, kernel_initializer, dtype=self.dtype_policy, name="network"
        )
        self.supports_masking = True

    def build(self, inputs_shape: Shape) -> None:
        """Builds F and creates d."""
        check_sequence(inputs_shape, "inputs")
        self.network.build(inputs_shape)
        size = 2 * self.max_distance + 3 if self.signed else self.max_distance + 2
        # No autocast: scores are computed in float32 or higher precision under every policy.
        self.distance_bias = self.add_weight(
            shape=(size,), initializer="zeros", autocast=False, name="distance_bias"
        )

    def call(
        self,
        inputs: Tensor,
        mask: Tensor | None = None,
        training: bool | None = None,
        return_attention_scores: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Attends within `inputs`; see the class."""
        mask = sequence_mask(mask, "mask", inputs)
        x = zero_padding(
            keras.ops.cast(inputs, self.compute_dtype), mask
        )  # Keras does not cast integers
        attended, scores = ops.intra_attention(
            self.network(x, training=training),  # (B, T, units)
            x,
            self.distance_bias,
            mask,
            signed=self.signed,
            return_scores=True,
        )
        output = keras.ops.concatenate([x, attended], axis=-1)  # (B, T, 2·D)
        return (output, scores) if return_attention_scores else output

    def compute_output_shape(self, inputs_shape: Shape) -> Shape:
        """(B, T, 2·D)."""
        return (*inputs_shape[:-1], 2 * check_sequence(inputs_shape, "inputs"))

    def compute_output_spec(
        self,
        inputs: Tensor,
        mask: Tensor | None = None,
        training: bool | None = None,
        return_attention_scores: bool = False,
    ) -> Any:
        """Returns the symbolic output (B, T, 2·D), and weights (B, T, T)."""
        check_sequence_mask(mask, "mask", inputs)
        shape = tuple(inputs.shape)
        output = keras.KerasTensor(self.compute_output_shape(shape), dtype=self.compute_dtype)
        if not return_attention_scores:
            return output
        return output, keras.KerasTensor((*shape[:2], shape[1]), dtype=self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        """Returns every constructor argument."""
        names = ("units", "num_layers", "dropout", "max_distance", "signed")
        return {
            **super().get_config(),
            **{name: getattr(self, name) for name in names},
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
        }
