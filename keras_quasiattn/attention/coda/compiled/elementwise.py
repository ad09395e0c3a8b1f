"""Similarities and gates, and their derivatives, as compiled loops over flat arrays."""

import math
from typing import Any

import numpy as np
from numba import float32, njit, types
from numba.extending import overload, register_jitable

from keras_quasiattn.core.compiled.elementary import FAST, exp32

FUNCTION_CODES = {None: 0, "identity": 1, "tanh": 2, "sigmoid": 3, "arctan": 4, "algebraic": 5}


@register_jitable
def _tanh32(x: Any) -> Any:
    size = abs(x)
    # The odd series keeps relative precision up to 0.625, and 1 − 2/(e^2x + 1) does above.
    square = x * x
    series = float32(-5.70498872745e-3)
    series = series * square + float32(2.06390887954e-2)
    series = series * square + float32(-5.37397155531e-2)
    series = series * square + float32(1.33314422036e-1)
    series = series * square + float32(-3.33332819422e-1)
    small = series * square * x + x
    large = float32(1) - float32(2) / (exp32(min(size + size, float32(80.0))) + float32(1))
    large = large if x >= 0 else -large
    return large if size > float32(0.625) else small


@register_jitable
def _sigmoid32(x: Any) -> Any:
    small = exp32(-abs(x))
    upper = float32(1) / (float32(1) + small)
    return upper if x >= 0 else small * upper


@register_jitable
def _sigmoid64(x: Any) -> Any:
    small = math.exp(-abs(x))
    return 1.0 / (1.0 + small) if x >= 0 else small / (1.0 + small)


# Neither counts references; see `elementary.LOOP`.
_OPTIONS: Any = {"fastmath": FAST, "error_model": "numpy", "_nrt": False}


def values(code: int, x: Any, y: Any) -> None:
    """Set y[i] = function(x[i]), with NaN for NaN, or 1 for code 0.

    `code` is a value of `FUNCTION_CODES`.
    """
    raise NotImplementedError("callable from compiled code only")


@overload(values, jit_options=_OPTIONS)
def _values(code: Any, x: Any, y: Any) -> Any:
    number = x.dtype
    tanh, sigmoid = (_tanh32, _sigmoid32) if number == types.float32 else (math.tanh, _sigmoid64)

    def loops(code: Any, x: Any, y: Any) -> None:
        one = number(1)
        if code == 0:
            y[:] = one
        elif code == 1:
            for i in range(x.size):
                y[i] = x[i]
        elif code == 2:
            for i in range(x.size):
                y[i] = tanh(x[i]) if x[i] == x[i] else x[i]
        elif code == 3:
            for i in range(x.size):
                y[i] = sigmoid(x[i]) if x[i] == x[i] else x[i]
        elif code == 4:
            for i in range(x.size):
                y[i] = np.arctan(x[i])
        else:
            # x / √(1 + x²), scaled so that the square does not overflow.
            for i in range(x.size):
                size = max(abs(x[i]), one)
                low, ratio = one / size, x[i] / size
                y[i] = ratio / np.sqrt(low * low + ratio * ratio)

    return loops


@njit(cache=True, **_OPTIONS)
def slopes(code: int, x: Any, y: Any, slope: Any) -> None:
    """Set slope[i] to the derivative at x[i] of the function with y[i] = function(x[i])."""
    one = x.dtype.type(1)
    if code <= 1:
        slope[:] = code
    elif code == 2:
        for i in range(x.size):
            slope[i] = one - y[i] * y[i]
    elif code == 3:
        for i in range(x.size):
            slope[i] = y[i] * (one - y[i])
    elif code == 4:
        for i in range(x.size):
            slope[i] = one / (one + x[i] * x[i])
    else:
        for i in range(x.size):
            reciprocal = one / np.sqrt(one + x[i] * x[i])
            slope[i] = reciprocal * reciprocal * reciprocal
