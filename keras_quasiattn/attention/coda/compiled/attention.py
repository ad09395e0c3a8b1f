"""The two passes of CoDA over a whole problem, with M in blocks of 8 rows × at most 256 columns."""

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from keras_quasiattn.attention.coda.compiled.blocks import (
    BLOCK_ROWS,
    buffer,
    column_buffers,
    flipped,
    load_columns,
    load_rows,
    row_buffers,
    space,
)
from keras_quasiattn.attention.coda.compiled.elementwise import slopes, values
from keras_quasiattn.core.compiled.elementary import FAST, LOOP
from keras_quasiattn.core.compiled.vectors import (
    add_products,
    add_signs,
    distances,
    load,
    products,
    store,
    transpose,
)


@njit(**LOOP)
def _mix(x: Any) -> Any:
    x = np.uint32((x ^ (x >> np.uint32(16))) * np.uint32(0x7FEB352D))
    x = np.uint32((x ^ (x >> np.uint32(15))) * np.uint32(0x846CA68B))
    return np.uint32(x ^ (x >> np.uint32(16)))


@njit(**LOOP)
def _is_masked(p: Any) -> bool:
    return p.is_causal or p.key_mask.shape[0] or p.row_mask.shape[0] or p.full_mask.shape[0]


@njit(**LOOP)
def _allow(p: Any, b: int, t: int, s: int, allowed: Any) -> None:
    """Set `allowed` (8 · width,) to 1 for the pairs of the block at (t, s) that attend, else 0."""
    rows, columns = min(BLOCK_ROWS, p.beta.shape[1] - t), min(p.width, p.value.shape[1] - s)
    for r in range(BLOCK_ROWS):
        row = r < rows and (p.row_mask.shape[0] == 0 or p.row_mask[b, t + r])
        end = columns if row else 0
        if p.is_causal:
            end = min(end, max(0, t + r + 1 - s))
        first = r * p.width
        for i in range(p.width):
            allowed[first + i] = i < end
        if p.key_mask.shape[0]:
            for i in range(end):
                allowed[first + i] &= p.key_mask[b, s + i]
        if p.full_mask.shape[0]:
            for i in range(end):
                allowed[first + i] &= p.full_mask[p.full_index[b], t + r, s + i]


@njit(**LOOP)
def _keep(key: Any, t: int, s: int, threshold: Any, kept: Any, factors: Any) -> None:
    """Write the dropout of `core.randomness` as one factor per weight of a block."""
    rows, width = factors.shape
    for r in range(rows):
        row_key = _mix(
            np.uint32(np.uint32(key) + np.uint32(np.uint32(t + r) * np.uint32(0x9E3779B1)))
        )
        for i in range(width):
            bits = _mix(np.uint32(row_key + np.uint32(np.uint32(s + i) * np.uint32(0x85EBCA77))))
            factors[r, i] = kept if np.uint32(bits >> np.uint32(8)) >= threshold else 0


@njit(fastmath=FAST, **LOOP)
def _affine(x: Any, sign: Any, factors: Any, offsets: Any, out: Any) -> None:
    """Compute out[r, i] = sign · factors[r] · x[r, i] − offsets[r]."""
    for r in range(x.shape[0]):
        factor = sign * factors[r, 0]
        for i in range(x.shape[1]):
            out[r, i] = factor * x[r, i] - offsets[r, 0]


@njit(fastmath=FAST, **LOOP)
def _affine_gradient(
    slope: Any, x: Any, sign: Any, factors: Any, d_factors: Any, d_offsets: Any
) -> None:
    """Turn `slope`, the gradient of `_affine`'s result, into x's gradient; write the others."""
    for r in range(x.shape[0]):
        factor, total, shift = sign * factors[r, 0], sign * 0, sign * 0
        for i in range(x.shape[1]):
            total += slope[r, i] * x[r, i]
            shift += slope[r, i]
            slope[r, i] *= factor
        d_factors[r, 0], d_offsets[r, 0] = sign * total, -shift


@njit(**LOOP)
def _compose(p: Any, space: Any) -> None:
    """Compute E, N and their functions for one block.

    work[0, 1] = E, N; work[2, 3] = dot products, distances; work[4, 5] = f(E), g(N).
    """
    rows, keys, work, flat = space.rows, space.keys, space.work, space.flat_work
    one = work.dtype.type(1)
    if p.similarity_code:
        products(rows.query, keys.key, work[2])
        _affine(work[2], one, rows.alpha, rows.similarity_offset, work[0])
    if p.gate_code:
        distances(rows.distance_query, keys.distance_key, work[3])
        _affine(work[3], -one, rows.beta, rows.distance_offset, work[1])
    values(p.similarity_code, flat[0], flat[4])
    values(p.gate_code, flat[1], flat[5])


@njit(nogil=True, cache=True)
def forward(p: Any, first: int, step: int, out: Any, out_other: Any) -> None:
    """Write M · value to `out` (B, T, V) and Mᵀ · other_value to `out_other` (B · chunks, S, W).

    Computes every `step`-th of the B · chunks pieces, starting with `first`.
    """
    sums, other_sums = buffer(BLOCK_ROWS, p.value), buffer(p.width, p.other_value)
    _forward(p, first, step, space(p), sums, other_sums, out, out_other)


@njit(fastmath=FAST, **LOOP)
def _forward(
    p: Any, first: int, step: int, space: Any, sums: Any, other_sums: Any, out: Any, out_other: Any
) -> None:
    target, source = p.beta.shape[1], max(1, p.value.shape[1])
    length = -(-target // (BLOCK_ROWS * p.chunks)) * BLOCK_ROWS  # rows of a piece
    flat, weights, factors = space.flat_work, space.work[4], space.factors
    allowed, masked, zero = space.allowed, _is_masked(p), weights.dtype.type(0)
    for item in range(first, out.shape[0] * p.chunks, step):
        b, start = item // p.chunks, (item % p.chunks) * length
        for s in range(0, source, p.width):
            load_columns(p, b, s, space.columns, space.keys)
            other_sums[:] = 0
            for t in range(start, min(start + length, target), BLOCK_ROWS):
                if p.is_causal and s > t + BLOCK_ROWS - 1:
                    continue
                load_rows(p, b, t, space.rows)
                _compose(p, space)
                if masked or t == start or t + BLOCK_ROWS > target:
                    _allow(p, b, t, s, allowed)
                for i in range(flat.shape[1]):
                    weight = p.scale * flat[4, i] * flat[5, i]
                    flat[4, i] = weight if allowed[i] else zero
                if p.dropout_keys.size:
                    _keep(p.dropout_keys[b], t, s, p.dropout_threshold, p.kept_factor, factors)
                    weights *= factors
                products(weights, space.columns.value, sums)
                store(sums, t, s > 0, out[b])
                if p.other_value.shape[2]:
                    add_products(weights.T, space.rows.other_value, other_sums)
            store(other_sums, s, False, out_other[item])


class Gradients(NamedTuple):
    """Buffers of one thread for gradients."""

    rows: Any
    columns: Any
    parts: Any  # (3, 8, width): M, and the gradients of E and N
    flat_parts: Any  # the same memory as (3, 8 · width)
    inner: Any  # (8, width), the gradient of M
    flat_inner: Any
    up: Any  # (8, V or more)
    up_other: Any  # (width, W or more)
    up_features: Any  # the same with features first


@njit(nogil=True, cache=True)
def backward(p: Any, first: int, step: int, g: Any, g_other: Any, d: Any) -> None:
    """Write the gradients of Σ g · (M · value) + Σ g_other · (Mᵀ · other_value) to `d`.

    `d` has an array for each of the first ten fields of `Problem`. The first axis of those for key,
    distance_key and value is B · chunks: one sum per piece.
    """
    kind, up_other = p.value.dtype, buffer(p.width, g_other)
    parts = np.zeros((3, BLOCK_ROWS, p.width), kind)
    inner = np.zeros((BLOCK_ROWS, p.width), kind)
    gradients = Gradients(
        row_buffers(p, False),
        column_buffers(p, False),
        parts,
        parts.reshape((3, BLOCK_ROWS * p.width)),
        inner,
        inner.reshape(BLOCK_ROWS * p.width),
        buffer(BLOCK_ROWS, g),
        up_other,
        flipped(up_other),
    )
    of_rows = (d[0], d[0] if p.compares_same else d[2], *d[5:])
    of_columns = (d[1], d[1] if p.compares_same else d[3], d[4])
    _backward(p, first, step, g, g_other, space(p), gradients, of_rows, of_columns)


@njit(fastmath=FAST, **LOOP)
def _backward(
    p: Any,
    first: int,
    step: int,
    g: Any,
    g_other: Any,
    space: Any,
    gradients: Any,
    of_rows: Any,
    of_columns: Any,
) -> None:
    target, source, one = p.beta.shape[1], max(1, p.value.shape[1]), g.dtype.type(1)
    length = -(-target // (BLOCK_ROWS * p.chunks)) * BLOCK_ROWS
    same, rows, columns = p.compares_same, space.rows, space.columns
    work, flat, factors = space.work, space.flat_work, space.factors
    allowed, masked, zero = space.allowed, _is_masked(p), one * 0
    d_rows, d_columns, parts, flat_parts, inner, flat_inner, up, up_other, up_features = gradients
    weights, to_similarity, to_gate = parts[0], parts[1], parts[2]
    for item in range(first, g.shape[0] * p.chunks, step):
        b, start = item // p.chunks, (item % p.chunks) * length
        for s in range(0, source, p.width):
            load_columns(p, b, s, columns, space.keys)
            transpose(columns.value, space.keys.value)
            load(g_other[b], s, up_other)
            transpose(up_other, up_features)
            for of_column in d_columns:
                of_column[:] = 0
            for t in range(start, min(start + length, target), BLOCK_ROWS):
                if p.is_causal and s > t + BLOCK_ROWS - 1:
                    continue
                load_rows(p, b, t, rows)
                load(g[b], t, up)
                _compose(p, space)
                # The gradient of M after dropout; times `factors`, before it.
                products(up, space.keys.value, inner)
                if p.other_value.shape[2]:
                    add_products(rows.other_value, up_features, inner)
                if p.dropout_keys.size:
                    _keep(p.dropout_keys[b], t, s, p.dropout_threshold, p.kept_factor, factors)
                    inner *= factors
                slopes(p.similarity_code, flat[0], flat[4], flat_parts[1])
                slopes(p.gate_code, flat[1], flat[5], flat_parts[2])
                if masked or t == start or t + BLOCK_ROWS > target:
                    _allow(p, b, t, s, allowed)
                for i in range(flat_inner.size):
                    left, right, by_weight = p.scale * flat[4, i], flat[5, i], flat_inner[i]
                    weight = left * right
                    by_similarity = flat_parts[1, i] * p.scale * right * by_weight
                    by_gate = flat_parts[2, i] * left * by_weight
                    flat_parts[0, i] = weight if allowed[i] else zero
                    flat_parts[1, i] = by_similarity if allowed[i] else zero
                    flat_parts[2, i] = by_gate if allowed[i] else zero
                if p.dropout_keys.size:
                    weights *= factors
                add_products(weights.T, up, d_columns.value)
                if p.other_value.shape[2]:
                    products(weights, up_other, d_rows.other_value)
                if p.similarity_code:
                    shift = d_rows.similarity_offset
                    _affine_gradient(to_similarity, work[2], one, rows.alpha, d_rows.alpha, shift)
                    products(to_similarity, columns.key, d_rows.query)
                    add_products(to_similarity.T, rows.query, d_columns.key)
                if p.gate_code:
                    shift = d_rows.distance_offset
                    _affine_gradient(to_gate, work[3], -one, rows.beta, d_rows.beta, shift)
                    x, y = rows.distance_query, columns.distance_key
                    d_rows.distance_query[:] = 0
                    add_signs(to_gate, x, y, d_rows.distance_query, d_columns.distance_key)
                for i in range(len(d_rows)):
                    store(d_rows[i], t, s > 0 or (i == 1 and same), of_rows[i][b])
            for i in range(len(d_columns)):
                store(d_columns[i], s, i == 1 and same, of_columns[i][item])
