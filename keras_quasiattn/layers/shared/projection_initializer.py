"""First values for projections to and from several heads."""

import math
from typing import Any

import keras
from keras import ops

Tensor = Any


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class ProjectionInitializer(keras.initializers.Initializer):
    """Initializes a kernel of more than two axes as the matrix that it is.

    Keras reads the fans of a kernel (features, heads, size) as those of a convolution. For 4 heads of 32 on 128
    features its Glorot kernels come out at a quarter of a dense layer's scale, and the products q·k at a sixteenth:
    softmax then starts as an average, and tanh(E) of CoDA near 0.

    Args:
        initializer: what makes the matrix (inputs, outputs).
        input_axes: number of the kernel's first axes that are inputs.

    Call arguments:
        shape: the kernel's shape.
        dtype: its dtype.

    >>> kernel = ProjectionInitializer("glorot_uniform", input_axes=1)((128, 4, 32))
    >>> bool(keras.ops.max(keras.ops.abs(kernel)) > 0.15)  # the bound is √(6 / (128 + 128)) ≈ 0.153
    True
    """

    def __init__(self, initializer: Any, input_axes: int) -> None:
        self.initializer = keras.initializers.get(initializer)
        self.input_axes = input_axes

    def __call__(self, shape: tuple[int, ...], dtype: Any = None) -> Tensor:
        """A tensor of `shape`."""
        matrix = (math.prod(shape[: self.input_axes]), math.prod(shape[self.input_axes :]))
        return ops.reshape(self.initializer(matrix, dtype=dtype), shape)

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        initializer = keras.initializers.serialize(self.initializer)
        return {"initializer": initializer, "input_axes": self.input_axes}
