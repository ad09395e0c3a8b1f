"""Projections to and from heads, and of heads; with workarounds for two faults of Keras."""

from typing import Any

import keras
from keras import ops

Tensor = Any


def projected(dense: keras.layers.EinsumDense, x: Tensor) -> Tensor:
    """Returns `dense(x)` for x (B, T, ...), with correct bias axes and the batch size of x.

    On TensorFlow `keras.ops.add` (3.15.1) treats an operand with a single axis longer than 1 as a
    bias of axis 1 if the lengths match: with T = N, a bias (N, 1) was added along T instead of N.
    Padding x by one position, which is cut off afterwards, makes the lengths differ. And
    `keras.ops.einsum` turns 0 examples into 1 if there are no positions either; the final reshape
    corrects that.
    """
    bias = dense.bias
    if bias is None or sum(size > 1 for size in bias.shape) != 1 or x.shape[1] != max(bias.shape):
        result = dense(x)
    else:
        result = dense(ops.pad(x, [(0, 0), (0, 1)] + [(0, 0)] * (len(x.shape) - 2)))[:, :-1]
    if all(x.shape[:2]):
        return result
    return ops.reshape(result, (*ops.shape(x)[:2], *ops.shape(result)[2:]))


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
