"""Projections of a multi-head layer: from features to heads and from heads to features."""

import dataclasses
import string
from typing import Any

import keras

from keras_quasiattn.layers.shared.projection_initializer import ProjectionInitializer

Shape = tuple[int | None, ...]


@dataclasses.dataclass
class HeadProjections:
    """Creates the projections of one layer, with common initializers, regularizers and constraints.

    They are `keras.layers.EinsumDense` layers, so LoRA and quantization work on them. The arguments
    are those of `keras.layers.MultiHeadAttention`; `dtype` is the layer's policy.
    """

    use_bias: bool
    kernel_initializer: Any
    bias_initializer: Any
    kernel_regularizer: Any
    bias_regularizer: Any
    activity_regularizer: Any
    kernel_constraint: Any
    bias_constraint: Any
    dtype: Any

    def __post_init__(self) -> None:
        self.kernel_initializer = keras.initializers.get(self.kernel_initializer)
        self.bias_initializer = keras.initializers.get(self.bias_initializer)

    def to_heads(
        self, name: str, shape: Shape, heads: tuple[int, int], activation: Any = None
    ) -> Any:
        """Returns a built layer from `shape` (B, d1, …, dn, F) to (B, d1, …, dn, N, H).

        `heads` is (N, H).
        """
        return self._make(name, shape, 1, heads, activation)

    def from_heads(self, name: str, shape: Shape, output_shape: Shape) -> Any:
        """Returns a built layer from `shape` (B, d1, …, dn, N, H) to `output_shape`.

        Its output is (B, d1, …, dn, *output_shape).
        """
        return self._make(name, shape, 2, output_shape, None)

    def kernel(self, input_axes: int) -> ProjectionInitializer:
        """Returns an initializer for a kernel whose first `input_axes` axes are inputs."""
        return ProjectionInitializer(self.kernel_initializer.clone(), input_axes)

    def _make(self, name: str, shape: Shape, input_axes: int, sizes: Shape, activation: Any) -> Any:
        # For one axis d, one input axis and two output axes the equation is abc,cde->abde.
        letters = string.ascii_lowercase
        kept = len(shape) - input_axes
        positions, inputs = letters[:kept], letters[kept : len(shape)]
        outputs = letters[len(shape) : len(shape) + len(sizes)]
        dense = keras.layers.EinsumDense(
            f"{positions}{inputs},{inputs}{outputs}->{positions}{outputs}",
            output_shape=(*(None,) * (kept - 1), *sizes),
            activation=activation,
            bias_axes=outputs if self.use_bias else None,
            kernel_initializer=self.kernel(input_axes),
            bias_initializer=self.bias_initializer.clone(),
            kernel_regularizer=self.kernel_regularizer,
            bias_regularizer=self.bias_regularizer,
            activity_regularizer=self.activity_regularizer,
            kernel_constraint=self.kernel_constraint,
            bias_constraint=self.bias_constraint,
            dtype=self.dtype,
            name=name,
        )
        dense.build(shape)
        # Without this, Keras would warn that the projection drops the mask. The attention layer
        # clears padding and sets the mask of its output itself.
        dense.supports_masking = True
        return dense
