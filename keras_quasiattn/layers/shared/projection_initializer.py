"""Initializer for projections to and from several heads."""

import math
from typing import Any

import keras
from keras import ops

Tensor = Any


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class ProjectionInitializer(keras.initializers.Initializer):
    """Initializes a kernel of more than two axes as the matrix it represents.

    Keras before 3.15 computes the fans of a kernel (features, heads, size) as for a convolution.
    For 4 heads of size 32 on 128 features, its Glorot kernels have a quarter of the scale of a
    dense layer's, and the products q·k a sixteenth. Softmax then starts as an average, and tanh(E)
    of CoDA near 0.

    Args:
        initializer: initializer of the matrix (inputs, outputs).
        input_axes: number of leading kernel axes that are inputs.

    Call arguments:
        shape: shape of the kernel.
        dtype: dtype of the kernel.

    >>> kernel = ProjectionInitializer("glorot_uniform", input_axes=1)((128, 4, 32))
    >>> bool(keras.ops.max(keras.ops.abs(kernel)) > 0.15)  # the bound is √(6 / (128 + 128)) ≈ 0.153
    True
    """

    def __init__(self, initializer: Any, input_axes: int) -> None:
        self.initializer = keras.initializers.get(initializer)
        self.input_axes = input_axes

    def __call__(self, shape: tuple[int, ...], dtype: Any = None) -> Tensor:
        """Returns a tensor of `shape`."""
        matrix = (math.prod(shape[: self.input_axes]), math.prod(shape[self.input_axes :]))
        return ops.reshape(self.initializer(matrix, dtype=dtype), shape)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        initializer = keras.initializers.serialize(self.initializer)
        return {"initializer": initializer, "input_axes": self.input_axes}
