"""Keras' layer normalization with a workaround for a precision fault."""

from typing import Any

import keras
from keras import ops

Tensor = Any


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class LayerNormalization(keras.layers.LayerNormalization):
    """`keras.layers.LayerNormalization` over the last axis that keeps float64 precision.

    On JAX and PyTorch `keras.ops.layer_normalization` (3.15.1) rounds float64 to float32.
    """

    def call(self, inputs: Tensor) -> Tensor:
        """γ·(inputs − mean) / √(variance + ε) + β, (..., features)."""
        if self.compute_dtype != "float64":
            return super().call(inputs)
        features = inputs.shape[-1]  # `ops.mean` also rounds on PyTorch
        difference = inputs - ops.sum(inputs, axis=-1, keepdims=True) / features
        variance = ops.sum(ops.square(difference), axis=-1, keepdims=True) / features
        return self.gamma * difference / ops.sqrt(variance + self.epsilon) + self.beta
