"""The two passes of CoDA over a whole problem, with M in blocks of 8 rows × at most 256 columns."""

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from keras_quasiattn.ops.coda.compiled.elementwise import FAST, slopes, values
from keras_quasiattn.ops.coda.compiled.vectors import LANES, add_distances, add_products, add_signs

BLOCK_ROWS = 8


class Problem(NamedTuple):
    """Arrays of a (B, T, S) problem, padded to whole blocks, and the options of its weights.

    An unused array of the first ten has no features, (B, ·, 0); other unused arrays are empty.
    """

    query: Any  # (B, T, D)
    key: Any  # (B, S, D)
    distance_query: Any  # (B, T, F)
    distance_key: Any  # (B, S, F)
    value: Any  # (B, S, V)
    other_value: Any  # (B, T, W)
    alpha: Any  # (B, T, 1)
    beta: Any  # (B, T, 1)
    similarity_offset: Any  # (B, T, 1)
    distance_offset: Any  # (B, T, 1)
    similarity_code: int
    gate_code: int
    scale: Any
    key_mask: Any  # (B, S) of 0 and 1; empty if all keys are real
    row_mask: Any  # (B, T)
    full_mask: Any  # (masks, T, S)
    full_index: Any  # (B,), for each of B the index of its mask in `full_mask`
    is_causal: bool
    dropout_keys: Any  # (B,)
    dropout_threshold: Any
    kept_factor: Any
    chunks: int  # pieces of T computed independently
    width: int  # columns of a block


@njit(nogil=True, cache=True)
def pad(x: Any, is_real: Any, out: Any) -> None:
    """Copies x (B, length, features) into `out`, with 0 around it and at positions not real."""
    for b in range(out.shape[0]):
        for i in range(out.shape[1]):
            kept = x.shape[2] if i < x.shape[1] and (is_real.shape[0] == 0 or is_real[b, i]) else 0
            out[b, i, :kept] = x[b, i, :kept]
            out[b, i, kept:] = 0


@njit(cache=True)
def _mix(x: Any) -> Any:
    x = np.uint32((x ^ (x >> np.uint32(16))) * np.uint32(0x7FEB352D))
    x = np.uint32((x ^ (x >> np.uint32(15))) * np.uint32(0x846CA68B))
    return np.uint32(x ^ (x >> np.uint32(16)))


@njit(nogil=True, cache=True)
def _mask(p: Any, b: int, t: int, s: int, allowed: Any, work: Any) -> None:
    """Sets `work` (n, rows, width) to 0 where a pair of the block at (t, s) is masked."""
    rows, width = allowed.shape
    for r in range(rows):
        row = p.row_mask.shape[0] == 0 or p.row_mask[b, t + r]
        for i in range(width):
            allowed[r, i] = np.uint8(row)
        if p.key_mask.shape[0]:
            for i in range(width):
                allowed[r, i] &= p.key_mask[b, s + i]
        if p.full_mask.shape[0]:
            for i in range(width):
                allowed[r, i] &= p.full_mask[p.full_index[b], t + r, s + i]
        if p.is_causal:
            for i in range(max(0, t + r + 1 - s), width):
                allowed[r, i] = 0
    zero = work.dtype.type(0)
    for index in range(work.shape[0]):
        for r in range(rows):
            for i in range(width):
                work[index, r, i] = work[index, r, i] if allowed[r, i] else zero


@njit(nogil=True, cache=True)
def _keep(key: Any, t: int, s: int, threshold: Any, kept: Any, factors: Any) -> None:
    """Writes the dropout of `keras_quasiattn.ops.random` as one factor per weight of a block."""
    rows, width = factors.shape
    for r in range(rows):
        row_key = _mix(
            np.uint32(np.uint32(key) + np.uint32(np.uint32(t + r) * np.uint32(0x9E3779B1)))
        )
        for i in range(width):
            bits = _mix(np.uint32(row_key + np.uint32(np.uint32(s + i) * np.uint32(0x85EBCA77))))
            factors[r, i] = kept if np.uint32(bits >> np.uint32(8)) >= threshold else 0


@njit(nogil=True, fastmath=FAST, error_model="numpy", cache=True)
def _affine(x: Any, sign: Any, factors: Any, offsets: Any, out: Any) -> None:
    """out[r, i] = sign · factors[r] · x[r, i] − offsets[r]."""
    for r in range(x.shape[0]):
        factor = sign * factors[r, 0]
        shift = offsets[r, 0] if offsets.shape[1] else factor * 0
        for i in range(x.shape[1]):
            out[r, i] = factor * x[r, i] - shift


@njit(nogil=True, fastmath=FAST, error_model="numpy", cache=True)
def _affine_gradient(
    slope: Any, x: Any, sign: Any, factors: Any, d_factors: Any, d_offsets: Any
) -> None:
    """The gradient of `_affine`.

    Turns `slope` from the gradient of its result into the gradient of x, and adds the gradients of
    factors and offsets to `d_factors` and `d_offsets`.
    """
    for r in range(x.shape[0]):
        factor, total = sign * factors[r, 0], sign * 0
        if d_offsets.shape[1]:
            d_offsets[r, 0] -= slope[r].sum()
        for i in range(x.shape[1]):
            total += slope[r, i] * x[r, i]
            slope[r, i] *= factor
        d_factors[r, 0] += sign * total


@njit(nogil=True, cache=True)
def _compose(p: Any, b: int, t: int, key: Any, other: Any, work: Any) -> None:
    """Fills work (6, rows, width) for one block.

    work[0, 1] = E, N; work[2, 3] = dot products, distances; work[4, 5] = f(E), g(N).
    """
    u, one = t + work.shape[1], work.dtype.type(1)
    if p.similarity_code:
        work[2] = 0
        add_products(p.query[b, t:u], key, work[2])
        _affine(work[2], one, p.alpha[b, t:u], p.similarity_offset[b, t:u], work[0])
    if p.gate_code:
        work[3] = 0
        add_distances(p.distance_query[b, t:u], other, work[3])
        _affine(work[3], -one, p.beta[b, t:u], p.distance_offset[b, t:u], work[1])
    values(p.similarity_code, work[0].reshape(-1), work[4].reshape(-1))
    values(p.gate_code, work[1].reshape(-1), work[5].reshape(-1))


@njit(nogil=True, cache=True)
def _transpose(x: Any, out: Any) -> None:
    width, features = x.shape
    # (width, features) → (features, width), a vector of keys at a time: writes whole cache lines.
    for s in range(0, width, LANES):
        for f in range(features):
            for i in range(s, s + LANES):
                out[f, i] = x[i, f]


@njit(nogil=True, cache=True)
def _is_masked(p: Any) -> bool:
    return p.is_causal or p.key_mask.shape[0] or p.row_mask.shape[0] or p.full_mask.shape[0]


@njit(nogil=True, fastmath=FAST, error_model="numpy", cache=True)
def forward(p: Any, first: int, step: int, out: Any, out_other: Any) -> None:
    """Writes M · value to `out` (B, T, V) and Mᵀ · other_value to `out_other` (B · chunks, S, W).

    Computes every `step`-th of the B · chunks pieces, starting with `first`.
    """
    kind, width, target = p.value.dtype, p.width, out.shape[1]
    length = -(-target // (BLOCK_ROWS * p.chunks)) * BLOCK_ROWS  # rows of a piece
    work = np.zeros((6, BLOCK_ROWS, width), kind)
    factors = np.empty((BLOCK_ROWS, width), kind)
    allowed = np.empty((BLOCK_ROWS, width), np.uint8)
    key, other_key = (
        np.empty((p.key.shape[2], width), kind),
        np.empty((p.distance_key.shape[2], width), kind),
    )
    masked = _is_masked(p)
    for item in range(first, out.shape[0] * p.chunks, step):
        b, start = item // p.chunks, (item % p.chunks) * length
        out[b, start : start + length] = 0
        out_other[item] = 0
        for s in range(0, p.value.shape[1], width):
            e = s + width
            _transpose(p.key[b, s:e], key)
            _transpose(p.distance_key[b, s:e], other_key)
            for t in range(start, min(start + length, target), BLOCK_ROWS):
                if p.is_causal and s > t + BLOCK_ROWS - 1:
                    continue
                _compose(p, b, t, key, other_key, work)
                for r in range(BLOCK_ROWS):
                    for i in range(width):
                        work[4, r, i] *= p.scale * work[5, r, i]
                if masked:
                    _mask(p, b, t, s, allowed, work[4:5])
                if p.dropout_keys.size:
                    _keep(p.dropout_keys[b], t, s, p.dropout_threshold, p.kept_factor, factors)
                    work[4] *= factors
                add_products(work[4], p.value[b, s:e], out[b, t : t + BLOCK_ROWS])
                if p.other_value.shape[2]:
                    rows = p.other_value[b, t : t + BLOCK_ROWS]
                    add_products(work[4].T, rows, out_other[item, s:e])


@njit(nogil=True, fastmath=FAST, error_model="numpy", cache=True)
def backward(p: Any, first: int, step: int, g: Any, g_other: Any, d: Any) -> None:
    """Writes the gradients of Σ g · (M · value) + Σ g_other · (Mᵀ · other_value) to `d`.

    `d` has an array for each of the first ten fields of `Problem`. The first axis of those for key,
    distance_key and value is B · chunks: one sum per piece.
    """
    kind, width, target, one = p.value.dtype, p.width, g.shape[1], p.value.dtype.type(1)
    dq, dk, dx, dy, dv, d_other, d_alpha, d_beta, d_similarity_offset, d_distance_offset = d
    length = -(-target // (BLOCK_ROWS * p.chunks)) * BLOCK_ROWS
    work = np.zeros((6, BLOCK_ROWS, width), kind)
    inner, factors = np.empty((BLOCK_ROWS, width), kind), np.empty((BLOCK_ROWS, width), kind)
    parts = np.empty((3, BLOCK_ROWS, width), kind)  # M, and the gradients of E and N
    weights, to_similarity, to_gate = parts[0], parts[1], parts[2]
    allowed = np.empty((BLOCK_ROWS, width), np.uint8)
    key, other_key = (
        np.empty((p.key.shape[2], width), kind),
        np.empty((p.distance_key.shape[2], width), kind),
    )
    value, upstream = (
        np.empty((p.value.shape[2], width), kind),
        np.empty((g_other.shape[2], width), kind),
    )
    masked = _is_masked(p)
    for item in range(first, g.shape[0] * p.chunks, step):
        b, start = item // p.chunks, (item % p.chunks) * length
        for of_rows in (dq, dx, d_other, d_alpha, d_beta, d_similarity_offset, d_distance_offset):
            of_rows[b, start : start + length] = 0
        for of_columns in (dk, dy, dv):
            of_columns[item] = 0
        for s in range(0, p.value.shape[1], width):
            e = s + width
            _transpose(p.key[b, s:e], key)
            _transpose(p.distance_key[b, s:e], other_key)
            _transpose(p.value[b, s:e], value)
            _transpose(g_other[b, s:e], upstream)
            for t in range(start, min(start + length, target), BLOCK_ROWS):
                if p.is_causal and s > t + BLOCK_ROWS - 1:
                    continue
                u = t + BLOCK_ROWS
                _compose(p, b, t, key, other_key, work)
                # inner (rows, width): the gradient of M after dropout; times `factors`, before it.
                inner[:] = 0
                add_products(g[b, t:u], value, inner)
                if p.other_value.shape[2]:
                    add_products(p.other_value[b, t:u], upstream, inner)
                if p.dropout_keys.size:
                    _keep(p.dropout_keys[b], t, s, p.dropout_threshold, p.kept_factor, factors)
                    inner *= factors
                slopes(
                    p.similarity_code,
                    work[0].reshape(-1),
                    work[4].reshape(-1),
                    to_similarity.reshape(-1),
                )
                slopes(p.gate_code, work[1].reshape(-1), work[5].reshape(-1), to_gate.reshape(-1))
                for r in range(BLOCK_ROWS):
                    for i in range(width):
                        left, right = p.scale * work[4, r, i], work[5, r, i]
                        weights[r, i] = left * right
                        to_similarity[r, i] *= p.scale * right * inner[r, i]
                        to_gate[r, i] *= left * inner[r, i]
                if masked:
                    _mask(p, b, t, s, allowed, parts)
                if p.dropout_keys.size:
                    weights *= factors
                add_products(weights.T, g[b, t:u], dv[item, s:e])
                if p.other_value.shape[2]:
                    add_products(weights, g_other[b, s:e], d_other[b, t:u])
                if p.similarity_code:
                    shift = d_similarity_offset[b, t:u]
                    _affine_gradient(
                        to_similarity, work[2], one, p.alpha[b, t:u], d_alpha[b, t:u], shift
                    )
                    add_products(to_similarity, p.key[b, s:e], dq[b, t:u])
                    add_products(to_similarity.T, p.query[b, t:u], dk[item, s:e])
                if p.gate_code:
                    shift = d_distance_offset[b, t:u]
                    _affine_gradient(to_gate, work[3], -one, p.beta[b, t:u], d_beta[b, t:u], shift)
                    rows, keys = p.distance_query[b, t:u], p.distance_key[b, s:e]
                    add_signs(to_gate, rows, keys, dx[b, t:u], dy[item, s:e])
