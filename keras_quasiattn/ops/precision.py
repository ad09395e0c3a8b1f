"""The precision in which weights are computed, and products that keep it."""

from typing import Any

import keras
from keras import ops

Tensor = Any


def compute_dtype(*tensors: Tensor) -> str:
    """The dtype for distances, sums and means: float64 if all inputs are, otherwise float32."""
    dtypes = [keras.backend.standardize_dtype(tensor.dtype) for tensor in tensors]
    return "float64" if all(dtype == "float64" for dtype in dtypes) else "float32"


def as_dtype(value: Any, dtype: str) -> Tensor:
    """A number or tensor as a tensor of `dtype`; numbers are never rounded to float32 first."""
    if isinstance(value, (int, float)):
        return ops.convert_to_tensor(value, dtype=dtype)
    return ops.cast(value, dtype)


def weighted_sum(equation: str, weights: Tensor, value: Tensor) -> Tensor:
    """An einsum computed in the dtype of the weights and returned in that of the values."""
    return ops.cast(ops.einsum(equation, weights, ops.cast(value, weights.dtype)), value.dtype)


def dot_products(query: Tensor, key: Tensor, scale: float = 1.0) -> Tensor:
    """E = scale · query · keyᵀ, (..., T, S), in float32 for 16-bit inputs."""
    dtype = compute_dtype(query, key)
    query = ops.cast(query, dtype) * as_dtype(scale, dtype)
    # einsum, not matmul: on JAX and PyTorch `ops.matmul` rounds float64 to float32.
    return ops.einsum("...td,...sd->...ts", query, ops.cast(key, dtype))


def project(x: Tensor, kernel: Tensor) -> Tensor:
    """x·kernel: (..., D) and (D, U) → (..., U), or (..., D) and (D,) → (...); both of one dtype.

    >>> import numpy as np
    >>> np.asarray(project(np.array([[2.0, 3.0]]), np.array([1.0, 10.0]))).tolist()
    [32.0]
    """
    # One product of two matrices. "...d,du->...u" is slow: for the kernel's gradient, TensorFlow
    # makes a (..., D, U) tensor and then sums it. einsum, not matmul: on JAX and PyTorch
    # `ops.matmul` rounds float64 to float32.
    rows = ops.reshape(x, (-1, x.shape[-1]))
    product = ops.einsum("rd,du->ru", rows, ops.reshape(kernel, (x.shape[-1], -1)))
    return ops.reshape(product, (*ops.shape(x)[:-1], *kernel.shape[1:]))
