"""exp and log in compiled loops; in float32 without a call, so that loops are vectorized."""

import math
from typing import Any

import numpy as np
from numba import float32, int32, types
from numba.extending import overload, register_jitable

# Without "nnan" and "ninf", so that overflow behaves as in the reference.
FAST = {"contract", "arcp", "nsz", "reassoc"}
# Without reference counting, which would take as long as the arithmetic of short blocks. Such a
# loop cannot create arrays.
LOOP: dict[str, Any] = {"nogil": True, "cache": True, "error_model": "numpy", "_nrt": False}


@register_jitable
def exp32(x: Any) -> Any:
    """Compute exp to 2 units in the last place."""
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
def _log32(x: Any) -> Any:
    """Compute log of a normal number above 0, to 2 units in the last place."""
    bits = np.float32(x).view(np.int32)
    # x = 2^exponent · (1 + rest), with 1 + rest from √½ to √2.
    exponent = (bits - int32(0x3F3504F3)) >> int32(23)
    rest = np.int32(bits - (exponent << int32(23))).view(np.float32) - float32(1)
    series = float32(7.0376836292e-2)
    series = series * rest + float32(-1.1514610310e-1)
    series = series * rest + float32(1.1676998740e-1)
    series = series * rest + float32(-1.2420140846e-1)
    series = series * rest + float32(1.4249322787e-1)
    series = series * rest + float32(-1.6668057665e-1)
    series = series * rest + float32(2.0000714765e-1)
    series = series * rest + float32(-2.4999993993e-1)
    series = series * rest + float32(3.3333331174e-1)
    square, count = rest * rest, float32(exponent)
    small = series * rest * square + count * float32(-2.12194440e-4) - float32(0.5) * square
    return (small + rest) + count * float32(0.693359375)


@register_jitable
def _power32(x: Any, power: Any) -> Any:
    return exp32(power * _log32(x))


@register_jitable
def _power64(x: Any, power: Any) -> Any:
    return math.exp(power * math.log(x))


def raised(x: Any, power: Any) -> Any:
    """Return x^power for a normal number x above 0."""
    raise NotImplementedError("callable from compiled code only")


_OPTIONS: Any = {"error_model": "numpy", "_nrt": False}


@overload(raised, jit_options=_OPTIONS)
def _raised(x: Any, power: Any) -> Any:
    return _power32 if x == types.float32 else _power64
