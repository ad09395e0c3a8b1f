"""Arrays in the form that compiled loops and backends take."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

Array = np.ndarray
Arrays = Sequence[Array]
_ALIGNMENT = 64  # bytes


def whole(length: int, size: int) -> int:
    """Return the smallest multiple of `size` that is at least `length`."""
    return -(-length // size) * size


def read_only(x: Array) -> Array:
    """Return a read-only array: with one array type, Numba compiles each loop once."""
    x = np.ascontiguousarray(x).view()
    x.flags.writeable = False
    return x


def empty(shapes: Sequence[tuple[int, ...]], dtype: Any) -> list[Array]:
    """Return arrays in one block of memory, aligned so that TensorFlow uses them without a copy."""
    itemsize = np.dtype(dtype).itemsize
    lanes = _ALIGNMENT // itemsize
    sizes = [whole(math.prod(shape), lanes) for shape in shapes]
    block = np.empty(sum(sizes) + lanes, dtype)
    start, found = -block.ctypes.data % _ALIGNMENT // itemsize, []
    for shape, size in zip(shapes, sizes, strict=True):
        found.append(block[start : start + math.prod(shape)].reshape(shape))
        start += size
    return found
