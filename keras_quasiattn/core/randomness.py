"""Dropout and noise as pure functions of seed and position.

They are the same on every backend, and any tile can be recomputed on its own.
"""

import math
from typing import Any

from keras import ops

Tensor = Any

# Constants of a 32-bit integer hash ("lowbias32"), written as signed integers.
_FIRST, _SECOND = 0x7FEB352D, 0x846CA68B - 2**32
_ROW, _COLUMN = 0x9E3779B1 - 2**32, 0x85EBCA77 - 2**32
_BITS = 24
_NOISE_BITS = 23
_NOISE = 0x51ED270B  # keeps this stream apart from dropout's, which may have the same seed


def _logical_shift(x: Tensor, places: int) -> Tensor:
    return ops.bitwise_and(ops.right_shift(x, places), (1 << (32 - places)) - 1)


def _mix(x: Tensor) -> Tensor:
    x = ops.bitwise_xor(x, _logical_shift(x, 16)) * _FIRST
    x = ops.bitwise_xor(x, _logical_shift(x, 15)) * _SECOND
    return ops.bitwise_xor(x, _logical_shift(x, 16))


def dropout_keys(seed: Tensor, batch_size: Any) -> Tensor:
    """Return int32 keys (batch_size,) of independent (T, S) patterns, from two seed integers."""
    seed = ops.cast(seed, "int32")
    # Mix the seed before adding the index. Otherwise seed n + 1 shifts seed n's patterns by a head.
    start = _mix(ops.bitwise_xor(_mix(seed[0]), seed[1]))
    return _mix(ops.arange(batch_size, dtype="int32") + start)


def random_bits(keys: Tensor, rows: Tensor, columns: Tensor, count: int) -> Tensor:
    """Return integers of `count` random bits, int32 (batch_size, t, s); see `dropout_keep`."""
    row_keys = _mix(ops.expand_dims(keys, 1) + ops.expand_dims(rows, 0) * _ROW)  # (batch_size, t)
    bits = _mix(ops.expand_dims(row_keys, 2) + columns * _COLUMN)  # (batch_size, t, s)
    return _logical_shift(bits, 32 - count)


def dropout_keep(keys: Tensor, rows: Tensor, columns: Tensor, rate: float) -> Tensor:
    """Return which weights of a tile to keep, True with probability 1 − `rate`.

    The result (batch_size, t, s) depends on keys (batch_size,) of `dropout_keys`, and on the
    numbers of rows (t,) and columns (s,), all int32.
    """
    return ops.greater_equal(random_bits(keys, rows, columns, _BITS), round(rate * (1 << _BITS)))


def drop_weights(weights: Tensor, rate: float, seed: Tensor | None, first_row: Any = 0) -> Tensor:
    """Set a fraction `rate` of `weights` (..., T, S) to 0, and divide the rest by 1 − `rate`."""
    if not rate:
        return weights
    shape = ops.shape(weights)
    flat = ops.reshape(weights, (math.prod(shape[:-2]), *shape[-2:]))  # (B, T, S)
    keys = dropout_keys(seed, ops.shape(flat)[0])
    rows, columns = (ops.arange(length, dtype="int32") for length in shape[-2:])
    rows = rows + first_row
    keep = dropout_keep(keys, rows, columns, rate)
    return ops.reshape(ops.where(keep, flat / (1 - rate), ops.cast(0, flat.dtype)), shape)


def uniform_noise(seed: Tensor, shape: tuple[Any, ...], draws: int = 1) -> Tensor:
    """Return float32 draws in [2⁻²⁴, 1 − 2⁻²⁴], whose logarithms are finite: (..., S, draws)."""
    stream = ops.bitwise_xor(ops.cast(seed, "int32"), _NOISE)
    keys = dropout_keys(stream, math.prod(shape[:-1]))
    rows, columns = (ops.arange(length, dtype="int32") for length in (draws, shape[-1]))
    # (B, draws, S) → (B, S, draws).
    bits = ops.transpose(random_bits(keys, rows, columns, _NOISE_BITS), (0, 2, 1))
    # Adding half a step makes both ends exact in float32 and keeps them from 0 and 1.
    uniform = (ops.cast(bits, "float32") + 0.5) / 2**_NOISE_BITS
    return ops.reshape(uniform, (*shape, draws))


def gumbel_noise(seed: Tensor, shape: tuple[Any, ...], draws: int = 2) -> Tensor:
    """Return Gumbel(0, 1) draws between −2.9 and 16.7; shapes are as for `uniform_noise`."""
    return -ops.log(-ops.log(uniform_noise(seed, shape, draws)))
