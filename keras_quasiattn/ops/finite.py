"""NaN and infinity: where they stand, and how they stay there.

0 · NaN is NaN, so a weight of 0 does not hide a position that holds NaN: not in the sum of the
values, nor in a gradient. Such positions are therefore cleared before anything is computed, and
the rows that may see one become NaN afterwards.
"""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_quasiattn.ops.masking import zero_padding

Tensor = Any


def finite_positions(x: Tensor) -> Tensor:
    """True at the positions (B, L, ...) of `x` (B, L, ..., D) without NaN and infinity.

    Uses only operations that every runtime has.
    """
    dtype = keras.backend.standardize_dtype(x.dtype)
    if "float" not in dtype:  # Keras does not cast integers
        return ops.ones(ops.shape(x)[:-1], dtype="bool")
    # An array, because Keras converts a Python number to float32 first.
    highest = np.array({"float16": 65504.0, "float64": 1.79e308}.get(dtype, 3.38e38))
    return ops.all(ops.abs(x) <= ops.cast(highest, dtype), axis=-1)


def make_unknown(x: Tensor, rows: Tensor) -> Tensor:
    """`x` with NaN in the chosen rows.

    A sum, not a choice: the gradient passes through it, so a loss that depends on an unknown row
    has a gradient of NaN, and any other has the gradient of the known rows.

    Args:
        x: (B, T, ..., D).
        rows: boolean, (B, T, ...) without the last axes of `x`, each of which may have length 1.
    """
    nothing, unknown = (ops.cast(value, x.dtype) for value in (0.0, float("nan")))
    rows = ops.expand_dims(rows, tuple(range(len(rows.shape), len(x.shape))))
    return x + ops.where(rows, unknown, nothing)


def on_finite_rows(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """`function(x)`, which maps each row of `x` (B, T, D) by itself, as if no other row had NaN.

    A row with NaN or infinity gives NaN. Without this it would also make the gradients of the
    weights of `function` NaN, even if the loss does not depend on it.
    """
    finite = finite_positions(x)
    return make_unknown(function(zero_padding(x, finite)), ops.logical_not(finite))
