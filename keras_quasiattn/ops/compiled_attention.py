"""Compiled passes over a whole problem: M in blocks of 8 × 256, parallel over batch, heads and chunks of rows."""

from typing import Any

import numpy as np
from numba import njit, prange

from keras_quasiattn.ops.compiled_elementwise import FAST, apply
from keras_quasiattn.ops.compiled_loops import (
    ROWS,
    distances,
    pool_columns,
    pool_rows,
    products,
    sign_columns,
    sign_rows,
)


@njit(cache=True)
def _mix(x: Any) -> Any:
    x = np.uint32((x ^ (x >> np.uint32(16))) * np.uint32(0x7FEB352D))
    x = np.uint32((x ^ (x >> np.uint32(15))) * np.uint32(0x846CA68B))
    return np.uint32(x ^ (x >> np.uint32(16)))


@njit(cache=True)
def _allow(
    b: int, t: int, s: int, allowed: Any, key_mask: Any, row_mask: Any, full: Any, of: Any, causal: bool
) -> None:
    """Which pairs of a block attend, as 0 and 1."""
    rows, width = allowed.shape
    for r in range(rows):
        row = row_mask.shape[0] == 0 or row_mask[b, t + r]
        for i in range(width):
            allowed[r, i] = key_mask[b, s + i] & np.uint8(row)
        if full.shape[0]:
            for i in range(width):
                allowed[r, i] &= full[of[b], t + r, s + i]
        if causal:
            for i in range(max(0, t + r + 1 - s), width):
                allowed[r, i] = 0


@njit(cache=True)
def _keep(key: Any, t: int, s: int, threshold: Any, kept: Any, factors: Any) -> None:
    """The dropout of `keras_quasiattn.ops.dropout`, as a factor for every weight of a block."""
    rows, width = factors.shape
    for r in range(rows):
        row_key = _mix(np.uint32(np.uint32(key) + np.uint32(np.uint32(t + r) * np.uint32(0x9E3779B1))))
        for i in range(width):
            bits = _mix(np.uint32(row_key + np.uint32(np.uint32(s + i) * np.uint32(0x85EBCA77))))
            factors[r, i] = kept if np.uint32(bits >> np.uint32(8)) >= threshold else 0


@njit(fastmath=FAST, error_model="numpy", cache=True)
def _weigh(
    q: Any, k: Any, x: Any, y: Any, beta: Any, off_e: Any, off_n: Any, codes: Any, scale: Any, work: Any
) -> None:
    """M and its slopes by E and N of one block: work = E, N, L, f, f', g, g' becomes M in [3], slopes in [4], [6]."""
    rows, width = work.shape[1:]
    if codes[0]:
        products(q, k, work[0])
        if off_e.size:
            for r in range(rows):
                work[0, r] -= off_e[r, 0]
    if codes[1]:
        distances(x, y, work[2])
        for r in range(rows):
            shift = off_n[r, 0] if off_n.size else beta.dtype.type(0)
            factor = beta[r, 0]
            for i in range(width):
                work[1, r, i] = -factor * work[2, r, i] - shift
    apply(codes[0], work[0].reshape(-1), work[3].reshape(-1), work[4].reshape(-1))
    apply(codes[1], work[1].reshape(-1), work[5].reshape(-1), work[6].reshape(-1))
    for r in range(rows):
        f, df, g, dg = work[3, r], work[4, r], work[5, r], work[6, r]
        for i in range(width):
            left, right = scale * f[i], g[i]
            f[i] = left * right
            df[i] = scale * df[i] * right
            dg[i] = left * dg[i]


@njit(cache=True)
def _clear(allowed: Any, work: Any) -> None:
    for index in (3, 4, 6):
        for r in range(allowed.shape[0]):
            for i in range(allowed.shape[1]):
                if not allowed[r, i]:
                    work[index, r, i] = 0


@njit(cache=True)
def _transposed(x: Any, out: Any) -> None:
    width, features = x.shape
    for s in range(0, width, 16):  # 16 keys at a time: whole cache lines are written
        for f in range(features):
            for i in range(s, s + 16):
                out[f, i] = x[i, f]


@njit(parallel=True, fastmath=FAST, error_model="numpy", cache=True)
def forward(  # type: ignore[no-untyped-def]
    q, k, x, y, v, other, beta, off_e, off_n, codes, scale, masked, key_mask, row_mask, full, of, causal,
    keys, threshold, kept, chunks, width, out, out_other,
):  # fmt: skip
    """Adds M · v to `out` (B, T, V) and Mᵀ · other to `out_other` (B · chunks, S, W)."""
    target = out.shape[1]
    step = -(-target // (ROWS * chunks)) * ROWS
    for item in prange(out.shape[0] * chunks):
        b, start = item // chunks, (item % chunks) * step
        work = np.zeros((7, ROWS, width), q.dtype)
        factors = np.empty((ROWS, width), q.dtype)
        allowed = np.empty((ROWS, width), np.uint8)
        k_block, y_block = np.empty((k.shape[2], width), q.dtype), np.empty((y.shape[2], width), q.dtype)
        for s in range(0, v.shape[1], width):
            _transposed(k[b, s : s + width], k_block)
            _transposed(y[b, s : s + width], y_block)
            for t in range(start, min(start + step, target), ROWS):
                if causal and s > t + ROWS - 1:
                    continue
                u = t + ROWS
                _weigh(
                    q[b, t:u], k_block, x[b, t:u], y_block, beta[b, t:u], off_e[b, t:u], off_n[b, t:u],
                    codes, scale, work,
                )  # fmt: skip
                if masked:
                    _allow(b, t, s, allowed, key_mask, row_mask, full, of, causal)
                    _clear(allowed, work)
                if keys.size:
                    _keep(keys[b], t, s, threshold, kept, factors)
                    work[3] *= factors
                pool_rows(work[3], v[b, s : s + width], out[b, t:u])
                if other.size:
                    pool_columns(work[3], other[b, t:u], out_other[item, s : s + width])


@njit(parallel=True, fastmath=FAST, error_model="numpy", cache=True)
def backward(  # type: ignore[no-untyped-def]
    q, k, x, y, v, other, beta, off_e, off_n, codes, scale, masked, key_mask, row_mask, full, of, causal,
    keys, threshold, kept, chunks, width, g, g_other,
    dq, dk, dx, dy, dv, d_other, d_beta, d_off_e, d_off_n,
):  # fmt: skip
    """Adds the gradients of Σ g · (M · v) + Σ g_other · (Mᵀ · other); key-side ones are (B · chunks, S, ·)."""
    target = g.shape[1]
    step = -(-target // (ROWS * chunks)) * ROWS
    for item in prange(g.shape[0] * chunks):
        b, start = item // chunks, (item % chunks) * step
        work = np.zeros((7, ROWS, width), q.dtype)
        inner, part = np.empty((ROWS, width), q.dtype), np.empty((ROWS, width), q.dtype)
        factors = np.empty((ROWS, width), q.dtype)
        allowed = np.empty((ROWS, width), np.uint8)
        k_block, y_block = np.empty((k.shape[2], width), q.dtype), np.empty((y.shape[2], width), q.dtype)
        v_block, h_block = (
            np.empty((v.shape[2], width), q.dtype),
            np.empty((g_other.shape[2], width), q.dtype),
        )
        for s in range(0, v.shape[1], width):
            e = s + width
            _transposed(k[b, s:e], k_block)
            _transposed(y[b, s:e], y_block)
            _transposed(v[b, s:e], v_block)
            if other.size:
                _transposed(g_other[b, s:e], h_block)
            for t in range(start, min(start + step, target), ROWS):
                if causal and s > t + ROWS - 1:
                    continue
                u = t + ROWS
                _weigh(
                    q[b, t:u], k_block, x[b, t:u], y_block, beta[b, t:u], off_e[b, t:u], off_n[b, t:u],
                    codes, scale, work,
                )  # fmt: skip
                if masked:
                    _allow(b, t, s, allowed, key_mask, row_mask, full, of, causal)
                    _clear(allowed, work)
                products(g[b, t:u], v_block, inner)
                if other.size:
                    products(other[b, t:u], h_block, part)
                    inner += part
                if keys.size:
                    _keep(keys[b], t, s, threshold, kept, factors)
                    work[3] *= factors
                    inner *= factors
                pool_columns(work[3], g[b, t:u], dv[item, s:e])
                if other.size:
                    pool_rows(work[3], g_other[b, s:e], d_other[b, t:u])
                work[4] *= inner
                work[6] *= inner
                if codes[0]:
                    pool_rows(work[4], k[b, s:e], dq[b, t:u])
                    pool_columns(work[4], q[b, t:u], dk[item, s:e])
                    if off_e.size:
                        for r in range(ROWS):
                            d_off_e[b, t + r, 0] -= work[4, r].sum()
                if codes[1]:
                    for r in range(ROWS):
                        slope = work[6, r]
                        d_beta[b, t + r, 0] -= (slope * work[2, r]).sum()
                        if off_n.size:
                            d_off_n[b, t + r, 0] -= slope.sum()
                        slope *= -beta[b, t + r, 0]
                    sign_rows(work[6], x[b, t:u], y[b, s:e], dx[b, t:u])
                    sign_columns(work[6], x[b, t:u], y[b, s:e], dy[item, s:e])
