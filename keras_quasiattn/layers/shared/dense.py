"""Keras' dense layer with a workaround for a precision fault."""

from typing import Any

import keras

from keras_quasiattn.ops.backend import tanh
from keras_quasiattn.ops.precision import project

Tensor = Any


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class Dense(keras.layers.Dense):
    """`keras.layers.Dense` that keeps float64 precision.

    On JAX and PyTorch `keras.ops.matmul` (3.15.1) rounds float64 to float32; on JAX so does
    `keras.ops.tanh`.
    """

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        """activation(inputs·kernel + bias), (..., units)."""
        if self.compute_dtype != "float64":
            return super().call(inputs, training=training)
        x = project(inputs, self.kernel)
        if self.bias is not None:
            x = x + self.bias
        if self.activation is None:
            return x
        return tanh(x) if self.activation is keras.activations.tanh else self.activation(x)

    def quantize(self, mode: Any = None, type_check: bool = True, config: Any = None) -> None:
        """Quantizes like Keras' layer, which rejects subclasses unless `type_check=False`."""
        super().quantize(mode, type_check=False, config=config)
