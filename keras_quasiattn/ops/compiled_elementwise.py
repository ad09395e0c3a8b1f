"""Similarities and gates as compiled loops: values and slopes of a row of E and N in place."""

import math
from typing import Any

import numpy as np
from numba import float32, int32, njit, types
from numba.extending import overload, register_jitable

SIMILARITY_CODES = {None: 0, "identity": 1, "tanh": 2, "sigmoid": 3}
GATE_CODES = {None: 0, "identity": 1, "sigmoid": 3, "tanh": 2, "arctan": 4, "algebraic": 5}
# No reassociation of NaN or infinity: padding and overflow must behave as in the reference.
FAST = {"contract", "arcp", "nsz", "reassoc"}


@register_jitable
def _exp32(x: Any) -> Any:
    """Exp to 2 units in the last place: no call, so that loops over it become vector instructions."""
    x = min(max(x, float32(-87.0)), float32(88.0))
    whole = np.floor(x * float32(1.44269504) + float32(0.5))
    rest = (x - whole * float32(0.693359375)) + whole * float32(2.12194440e-4)
    series = float32(1.9875691500e-4)
    series = series * rest + float32(1.3981999507e-3)
    series = series * rest + float32(8.3334519073e-3)
    series = series * rest + float32(4.1665795894e-2)
    series = series * rest + float32(1.6666665459e-1)
    series = series * rest + float32(5.0000001201e-1)
    series = series * rest * rest + rest + float32(1)
    return series * np.int32((int32(whole) + int32(127)) << int32(23)).view(np.float32)


@register_jitable
def _tanh32(x: Any) -> Any:
    size = abs(x)
    # Below 0.625 the odd series keeps relative precision; above it 1 − 2/(e^2x + 1) does.
    square = x * x
    series = float32(-5.70498872745e-3)
    series = series * square + float32(2.06390887954e-2)
    series = series * square + float32(-5.37397155531e-2)
    series = series * square + float32(1.33314422036e-1)
    series = series * square + float32(-3.33332819422e-1)
    small = series * square * x + x
    large = float32(1) - float32(2) / (_exp32(min(size + size, float32(80.0))) + float32(1))
    large = large if x >= 0 else -large
    return large if size > float32(0.625) else small


@register_jitable
def _sigmoid32(x: Any) -> Any:
    small = _exp32(-abs(x))
    upper = float32(1) / (float32(1) + small)
    return upper if x >= 0 else small * upper


@njit(fastmath=FAST, error_model="numpy", cache=True)
def apply32(code: int, x: Any, y: Any, slope: Any) -> None:
    """y[i] = function(x[i]) and slope[i] its derivative, float32."""
    if code == 0:
        for i in range(x.size):
            y[i], slope[i] = float32(1), float32(0)
    elif code == 1:
        for i in range(x.size):
            y[i], slope[i] = x[i], float32(1)
    elif code == 2:
        for i in range(x.size):
            value = _tanh32(x[i])
            value = value if x[i] == x[i] else x[i]
            y[i], slope[i] = value, float32(1) - value * value
    elif code == 3:
        for i in range(x.size):
            value = _sigmoid32(x[i])
            value = value if x[i] == x[i] else x[i]
            y[i], slope[i] = value, value * (float32(1) - value)
    elif code == 4:
        for i in range(x.size):
            y[i], slope[i] = np.arctan(x[i]), float32(1) / (float32(1) + x[i] * x[i])
    else:
        for i in range(x.size):
            size = max(abs(x[i]), float32(1))
            low = float32(1) / size
            y[i] = (x[i] / size) / np.sqrt(low * low + (x[i] / size) * (x[i] / size))
            reciprocal = float32(1) / np.sqrt(float32(1) + x[i] * x[i])
            slope[i] = reciprocal * reciprocal * reciprocal


@njit(error_model="numpy", cache=True)
def apply64(code: int, x: Any, y: Any, slope: Any) -> None:
    """The same in float64."""
    for i in range(x.size):
        z = x[i]
        if code == 0:
            y[i], slope[i] = 1.0, 0.0
        elif code == 1:
            y[i], slope[i] = z, 1.0
        elif code == 2:
            y[i] = math.tanh(z)
            slope[i] = 1.0 - y[i] * y[i]
        elif code == 3:
            small = math.exp(-abs(z))
            y[i] = 1.0 / (1.0 + small) if z >= 0 else small / (1.0 + small)
            slope[i] = y[i] * (1.0 - y[i])
        elif code == 4:
            y[i], slope[i] = math.atan(z), 1.0 / (1.0 + z * z)
        else:
            size = max(abs(z), 1.0)
            y[i] = (z / size) / math.sqrt(1.0 / (size * size) + (z / size) * (z / size))
            reciprocal = 1.0 / math.sqrt(1.0 + z * z)
            slope[i] = reciprocal * reciprocal * reciprocal


def apply(code: int, x: Any, y: Any, slope: Any) -> None:
    """y[i] = function(x[i]) and slope[i] its derivative, by the loop for the dtype of `x`."""
    raise NotImplementedError("callable from compiled code only")


@overload(apply)
def _apply(code: Any, x: Any, y: Any, slope: Any) -> Any:
    chosen = apply32 if x.dtype == types.float32 else apply64

    def implementation(code: Any, x: Any, y: Any, slope: Any) -> Any:
        chosen(code, x, y, slope)

    return implementation
