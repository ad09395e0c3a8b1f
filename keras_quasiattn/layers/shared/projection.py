"""Projections to and from heads, kept clear of a fault of Keras."""

from typing import Any

import keras
from keras import ops

Tensor = Any


def projected(dense: keras.layers.EinsumDense, x: Tensor) -> Tensor:
    """`dense(x)` of x (B, T, ...), with a bias such as (N, 1) added where it belongs, and as many rows as x has.

    On TensorFlow `keras.ops.add` (3.15.1) takes an operand with one axis above 1 for a bias of axis 1 where that is as
    long: with T = N, a bias (N, 1) was added along T. One more position, cut off again, keeps the two apart. And
    `keras.ops.einsum` makes one example of none where there is no position either.
    """
    bias = dense.bias
    if bias is None or sum(size > 1 for size in bias.shape) != 1 or x.shape[1] != max(bias.shape):
        result = dense(x)
    else:
        result = dense(ops.pad(x, [(0, 0), (0, 1)] + [(0, 0)] * (len(x.shape) - 2)))[:, :-1]
    if all(x.shape[:2]):
        return result
    return ops.reshape(result, (*ops.shape(x)[:2], *ops.shape(result)[2:]))
