"""Copy rows to buffers of whole vectors and back."""

from typing import Any

from numba import njit

from keras_quasiattn.core.compiled.elementary import LOOP


@njit(**LOOP)
def load(x: Any, start: int, out: Any) -> None:
    """Copy x (length, features) from row `start` on to `out`, and zeros beyond its end."""
    for i in range(out.shape[0]):
        if start + i < x.shape[0]:
            for f in range(x.shape[1]):
                out[i, f] = x[start + i, f]
        else:
            out[i] = 0


@njit(**LOOP)
def store(x: Any, start: int, adds: bool, out: Any) -> None:
    """Copy x without its padding to `out` (length, features) from row `start` on, or add it."""
    for i in range(min(x.shape[0], out.shape[0] - start)):
        if adds:
            for f in range(out.shape[1]):
                out[start + i, f] += x[i, f]
        else:
            for f in range(out.shape[1]):
                out[start + i, f] = x[i, f]
