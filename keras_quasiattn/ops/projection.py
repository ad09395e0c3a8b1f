"""A product of vectors with a matrix of weights."""

from typing import Any

from keras import ops

Tensor = Any


def project(x: Tensor, kernel: Tensor) -> Tensor:
    """x·kernel: (..., D) and (D, U) to (..., U), or (..., D) and (D,) to (...); both of one dtype.

    >>> import numpy as np
    >>> np.asarray(project(np.array([[2.0, 3.0]]), np.array([1.0, 10.0]))).tolist()
    [32.0]
    """
    # A product of two matrices is the fast one of the ways to write this. The slow one is "...d,du->...u": TensorFlow's
    # gradient by the kernel makes a (..., D, U) tensor before it sums. And einsum, not matmul: on JAX and PyTorch
    # `ops.matmul` rounds float64 to float32.
    rows = ops.reshape(x, (-1, x.shape[-1]))
    product = ops.einsum("rd,du->ru", rows, ops.reshape(kernel, (x.shape[-1], -1)))
    return ops.reshape(product, (*ops.shape(x)[:-1], *kernel.shape[1:]))
