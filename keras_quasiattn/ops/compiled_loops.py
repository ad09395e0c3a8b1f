"""Compiled loops for CPUs over blocks of a few rows of M.

Every inner loop writes one stream and reads at most eight: with more, the compiler would need too many checks that
they do not overlap, and would not make vector instructions.
"""

import math
from typing import Any

from numba import njit

from keras_quasiattn.ops.compiled_elementwise import FAST

ROWS = 8  # rows of M in work at once


@njit(fastmath=FAST, error_model="numpy", cache=True)
def products(x: Any, y: Any, sums: Any) -> None:
    """sums[r, s] = Σ_f x[r, f] · y[f, s]."""
    sums[:] = 0
    features, width = y.shape
    whole = features - features % 8
    for f in range(0, whole, 8):
        y0, y1, y2, y3, y4, y5, y6, y7 = (
            y[f],
            y[f + 1],
            y[f + 2],
            y[f + 3],
            y[f + 4],
            y[f + 5],
            y[f + 6],
            y[f + 7],
        )
        for r in range(ROWS):
            total = sums[r]
            a, b, c, d = x[r, f], x[r, f + 1], x[r, f + 2], x[r, f + 3]
            e, g, h, i = x[r, f + 4], x[r, f + 5], x[r, f + 6], x[r, f + 7]
            for s in range(width):
                low = a * y0[s] + b * y1[s] + c * y2[s] + d * y3[s]
                total[s] += low + (e * y4[s] + g * y5[s] + h * y6[s] + i * y7[s])
    for f in range(whole, features):
        for r in range(ROWS):
            for s in range(width):
                sums[r, s] += x[r, f] * y[f, s]


@njit(fastmath=FAST, error_model="numpy", cache=True)
def distances(x: Any, y: Any, sums: Any) -> None:
    """sums[r, s] = Σ_f |x[r, f] − y[f, s]|."""
    sums[:] = 0
    features, width = y.shape
    whole = features - features % 8
    for f in range(0, whole, 8):
        y0, y1, y2, y3, y4, y5, y6, y7 = (
            y[f],
            y[f + 1],
            y[f + 2],
            y[f + 3],
            y[f + 4],
            y[f + 5],
            y[f + 6],
            y[f + 7],
        )
        for r in range(ROWS):
            total = sums[r]
            a, b, c, d = x[r, f], x[r, f + 1], x[r, f + 2], x[r, f + 3]
            e, g, h, i = x[r, f + 4], x[r, f + 5], x[r, f + 6], x[r, f + 7]
            for s in range(width):
                low = abs(a - y0[s]) + abs(b - y1[s]) + abs(c - y2[s]) + abs(d - y3[s])
                total[s] += low + (abs(e - y4[s]) + abs(g - y5[s]) + abs(h - y6[s]) + abs(i - y7[s]))
    for f in range(whole, features):
        for r in range(ROWS):
            for s in range(width):
                sums[r, s] += abs(x[r, f] - y[f, s])


@njit(fastmath=FAST, error_model="numpy", cache=True)
def pool_rows(weights: Any, values: Any, sums: Any) -> None:
    """sums[r, v] += Σ_s weights[r, s] · values[s, v]; a multiple of 8 values."""
    width, features = values.shape
    for s in range(0, width, 8):
        y0, y1, y2, y3 = values[s], values[s + 1], values[s + 2], values[s + 3]
        y4, y5, y6, y7 = values[s + 4], values[s + 5], values[s + 6], values[s + 7]
        for r in range(ROWS):
            total = sums[r]
            a, b, c, d = weights[r, s], weights[r, s + 1], weights[r, s + 2], weights[r, s + 3]
            e, g, h, i = weights[r, s + 4], weights[r, s + 5], weights[r, s + 6], weights[r, s + 7]
            for v in range(features):
                low = a * y0[v] + b * y1[v] + c * y2[v] + d * y3[v]
                total[v] += low + (e * y4[v] + g * y5[v] + h * y6[v] + i * y7[v])


@njit(fastmath=FAST, error_model="numpy", cache=True)
def pool_columns(weights: Any, values: Any, sums: Any) -> None:
    """sums[s, v] += Σ_r weights[r, s] · values[r, v]."""
    width, features = sums.shape
    y0, y1, y2, y3 = values[0], values[1], values[2], values[3]
    y4, y5, y6, y7 = values[4], values[5], values[6], values[7]
    for s in range(width):
        total = sums[s]
        a, b, c, d = weights[0, s], weights[1, s], weights[2, s], weights[3, s]
        e, g, h, i = weights[4, s], weights[5, s], weights[6, s], weights[7, s]
        for v in range(features):
            low = a * y0[v] + b * y1[v] + c * y2[v] + d * y3[v]
            total[v] += low + (e * y4[v] + g * y5[v] + h * y6[v] + i * y7[v])


@njit(fastmath=FAST, error_model="numpy", cache=True)
def sign_rows(factors: Any, x: Any, y: Any, sums: Any) -> None:
    """sums[r, f] += Σ_s factors[r, s] · sign(x[r, f] − y[s, f]), 0 at ties; a multiple of 4 keys."""
    width, features = y.shape
    one, zero = factors.dtype.type(1), factors.dtype.type(0)
    for s in range(0, width, 4):
        y0, y1, y2, y3 = y[s], y[s + 1], y[s + 2], y[s + 3]
        for r in range(ROWS):
            point, total = x[r], sums[r]
            a, b, c, d = factors[r, s], factors[r, s + 1], factors[r, s + 2], factors[r, s + 3]
            for f in range(features):
                z = point[f]
                p = a * math.copysign(one, z - y0[f]) if z != y0[f] else zero
                q = b * math.copysign(one, z - y1[f]) if z != y1[f] else zero
                u = c * math.copysign(one, z - y2[f]) if z != y2[f] else zero
                w = d * math.copysign(one, z - y3[f]) if z != y3[f] else zero
                total[f] += p + q + u + w


@njit(fastmath=FAST, error_model="numpy", cache=True)
def sign_columns(factors: Any, x: Any, y: Any, sums: Any) -> None:
    """sums[s, f] += Σ_r factors[r, s] · sign(y[s, f] − x[r, f]), 0 at ties."""
    width, features = y.shape
    one, zero = factors.dtype.type(1), factors.dtype.type(0)
    for r in range(0, ROWS, 4):
        x0, x1, x2, x3 = x[r], x[r + 1], x[r + 2], x[r + 3]
        for s in range(width):
            point, total = y[s], sums[s]
            a, b, c, d = factors[r, s], factors[r + 1, s], factors[r + 2, s], factors[r + 3, s]
            for f in range(features):
                z = point[f]
                p = a * math.copysign(one, z - x0[f]) if z != x0[f] else zero
                q = b * math.copysign(one, z - x1[f]) if z != x1[f] else zero
                u = c * math.copysign(one, z - x2[f]) if z != x2[f] else zero
                w = d * math.copysign(one, z - x3[f]) if z != x3[f] else zero
                total[f] += p + q + u + w
