"""Projections to and from heads, and of heads; with workarounds for two faults of Keras."""

import math
from typing import Any

import keras
from keras import ops

Tensor = Any


def projected(dense: keras.layers.EinsumDense, x: Tensor) -> Tensor:
    """Returns `dense(x)` for x (B, T, ...), with correct bias axes and the batch size of x.

    All positions are passed as those of one example: TensorFlow would multiply the examples one by
    one, and sum a gradient of the kernel for each.

    On TensorFlow `keras.ops.add` (3.15.1) treats an operand with a single axis longer than 1 as a
    bias of axis 1 if the lengths match: with T = N, a bias (N, 1) was added along T instead of N. A
    bias that is long in its last axis is safe, since Keras compares that axis first. Padding x by
    one position, which is cut off afterwards, makes the lengths differ. And `keras.ops.einsum`
    turns 0 examples into 1 if there are no positions either; the final reshape corrects that.
    """
    inputs, outputs = dense.equation.replace(",", "->").split("->")[::2]
    count = sum(axis in outputs for axis in inputs)  # of axes of examples and positions
    leading, features = ops.shape(x)[:count], ops.shape(x)[count:]
    positions = (*(1,) * (count - 1), math.prod(leading))
    x = ops.reshape(x, (*positions, *features))
    lengths = () if dense.bias is None else tuple(size for size in dense.bias.shape if size > 1)
    if len(lengths) != 1 or dense.bias.shape[-1] > 1 or x.shape[1] != lengths[0]:
        result = dense(x)
    else:
        result = dense(ops.pad(x, [(0, 0), (0, 1)] + [(0, 0)] * (len(x.shape) - 2)))[:, :-1]
    return ops.reshape(result, (*leading, *ops.shape(result)[count:]))


def per_position(x: Tensor, kernel: Any) -> Tensor:
    """Returns x·kernel, a number for each position of each head, in the kernel's dtype.

    Args:
        x: heads (..., N, L, H) with a kernel (H, N), a column for each; or (..., L, H) with (H,).
        kernel: a weight, or a tensor.

    Returns:
        (..., N, L) or (..., L).
    """
    kernel = ops.convert_to_tensor(kernel)
    equation = "...nlh,hn->...nl" if len(kernel.shape) == 2 else "...lh,h->...l"
    return ops.einsum(equation, ops.cast(x, kernel.dtype), kernel)
