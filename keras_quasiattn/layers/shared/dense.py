"""Keras' dense layer, kept clear of a fault."""

from typing import Any

import keras

from keras_quasiattn.ops.backend import tanh
from keras_quasiattn.ops.precision import project

Tensor = Any


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class Dense(keras.layers.Dense):
    """`keras.layers.Dense`, in float64 too.

    On JAX and PyTorch `keras.ops.matmul` (3.15.1) rounds that to float32, on JAX `keras.ops.tanh` as well.
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
        """As `keras.layers.Dense`, which refuses subclasses unless it is told not to look."""
        super().quantize(mode, type_check=False, config=config)
