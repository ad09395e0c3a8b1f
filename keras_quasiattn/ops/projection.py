"""A product of vectors with a matrix of weights."""

import string
from typing import Any

from keras import ops

Tensor = Any


def project(x: Tensor, kernel: Tensor) -> Tensor:
    """x·kernel: (..., D) and (D, U) to (..., U), or (..., D) and (D,) to (...); both of one dtype.

    >>> import numpy as np
    >>> np.asarray(project(np.array([[2.0, 3.0]]), np.array([1.0, 10.0]))).tolist()
    [32.0]
    """
    # einsum, not matmul: on JAX and PyTorch `ops.matmul` rounds float64 to float32. Every label is spelled out, since
    # TensorFlow's gradient of "...d,du->...u" by the kernel makes a (..., D, U) tensor before it sums.
    labels = string.ascii_lowercase[: len(x.shape)]
    units = "z" * (len(kernel.shape) - 1)
    return ops.einsum(f"{labels},{labels[-1]}{units}->{labels[:-1]}{units}", x, kernel)
