"""JAX's own tanh and arctan: Keras' versions there round float64 to float32."""

from jax.numpy import arctan, tanh

__all__ = ["arctan", "tanh"]
