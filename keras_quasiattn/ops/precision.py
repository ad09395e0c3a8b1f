"""In which precision weights are computed."""

from typing import Any

import keras
from keras import ops

Tensor = Any


def compute_dtype(*tensors: Tensor) -> str:
    """The dtype for distances, sums and means: float64 if all inputs are, else at least float32."""
    dtypes = [keras.backend.standardize_dtype(tensor.dtype) for tensor in tensors]
    return "float64" if all(dtype == "float64" for dtype in dtypes) else "float32"


def as_dtype(value: Any, dtype: str) -> Tensor:
    """A number or tensor as a tensor of `dtype`; numbers never pass through a lower precision."""
    if isinstance(value, (int, float)):
        return ops.convert_to_tensor(value, dtype=dtype)
    return ops.cast(value, dtype)


def weighted_sum(equation: str, weights: Tensor, value: Tensor) -> Tensor:
    """An einsum of weights and values in the precision of the weights, returned in that of the values."""
    return ops.cast(ops.einsum(equation, weights, ops.cast(value, weights.dtype)), value.dtype)
