"""Noise that is a function of (seed, example, position), the same on every backend and path."""

import math
from typing import Any

from keras import ops

from keras_quasiattn.ops.dropout import dropout_keys, random_bits

Tensor = Any
_BITS = 23
_STREAM = 0x51ED270B  # another stream than dropout's, which may have the same seed


def uniform_noise(seed: Tensor, shape: tuple[Any, ...], draws: int = 1) -> Tensor:
    """Uniform float32 draws in [2⁻²⁴, 1 − 2⁻²⁴], away from the ends where a logarithm overflows.

    Args:
        seed: two integers, as `keras.random.SeedGenerator.next()` gives them.
        shape: (..., S).
        draws: independent numbers for each position.

    Returns:
        float32 (..., S, draws).
    """
    stream = ops.bitwise_xor(ops.cast(seed, "int32"), _STREAM)
    keys = dropout_keys(stream, math.prod(shape[:-1]))
    rows, columns = (ops.arange(length, dtype="int32") for length in (draws, shape[-1]))
    bits = ops.transpose(random_bits(keys, rows, columns, _BITS), (0, 2, 1))
    # Half a step up, so that both ends are exact in float32 and neither is 0 or 1.
    uniform = (ops.cast(bits, "float32") + 0.5) / 2**_BITS
    return ops.reshape(uniform, (*shape, draws))


def gumbel_noise(seed: Tensor, shape: tuple[Any, ...], draws: int = 2) -> Tensor:
    """Gumbel(0, 1) draws in float32, (..., S, draws), between −2.9 and 16.7; arguments as in `uniform_noise`."""
    return -ops.log(-ops.log(uniform_noise(seed, shape, draws)))
