"""A problem, and the buffers into which a block of 8 rows × at most 256 columns of M is copied.

Buffers have whole vectors, padded with zeros, so that the arrays of a problem may have any size.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from keras_quasiattn.core.compiled.elementary import LOOP
from keras_quasiattn.core.compiled.vectors import LANES, load, transpose

BLOCK_ROWS = 8


class Problem(NamedTuple):
    """Arrays of a (B, T, S) problem, empty or (B, ·, 0) if unused, and options of its weights."""

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
    compares_same: bool  # the distance compares `query` and `key`; its own arrays are unused
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


class Rows(NamedTuple):
    """The rows of a block, or their gradients, padded with zeros."""

    query: Any  # (8, D or more)
    distance_query: Any  # the same array as `query` if `compares_same`
    other_value: Any
    alpha: Any  # (8, 1), like the rest
    beta: Any
    similarity_offset: Any
    distance_offset: Any


class Columns(NamedTuple):
    """The columns of a block, or their gradients, padded with zeros."""

    key: Any  # (width, D or more)
    distance_key: Any  # the same array as `key` if `compares_same`
    value: Any


class Space(NamedTuple):
    """The buffers of one thread."""

    rows: Any
    columns: Any
    keys: Any  # `Columns` with features first, (D or more, width)
    work: Any  # (6, 8, width): see `attention._compose`
    flat_work: Any  # the same memory as (6, 8 · width)
    factors: Any  # (8, width), of dropout
    allowed: Any  # (8 · width,) of 0 and 1


@njit(cache=True)
def buffer(rows: int, x: Any) -> Any:
    """Return a zero buffer for `rows` rows of x (B, length, features), in whole vectors."""
    return np.zeros((rows, -(-x.shape[2] // LANES) * LANES), x.dtype)


@njit(cache=True)
def row_buffers(p: Any, same: bool) -> Any:
    """Return empty `Rows`; with `same`, one array for the similarity and the distance."""
    kind = p.value.dtype
    query = buffer(BLOCK_ROWS, p.query)
    compared = p.query if p.compares_same else p.distance_query
    return Rows(
        query,
        query if same else buffer(BLOCK_ROWS, compared),
        buffer(BLOCK_ROWS, p.other_value),
        np.zeros((BLOCK_ROWS, 1), kind),
        np.zeros((BLOCK_ROWS, 1), kind),
        np.zeros((BLOCK_ROWS, 1), kind),
        np.zeros((BLOCK_ROWS, 1), kind),
    )


@njit(cache=True)
def column_buffers(p: Any, same: bool) -> Any:
    """Return empty `Columns`; with `same`, one array for the similarity and the distance."""
    key = buffer(p.width, p.key)
    compared = p.key if p.compares_same else p.distance_key
    return Columns(key, key if same else buffer(p.width, compared), buffer(p.width, p.value))


@njit(cache=True)
def flipped(x: Any) -> Any:
    """Return a buffer for the transpose of x."""
    return np.zeros((x.shape[1], x.shape[0]), x.dtype)


@njit(cache=True)
def space(p: Any) -> Any:
    """Return the buffers for one thread."""
    same, kind = p.compares_same, p.value.dtype
    columns = column_buffers(p, same)
    key, value = flipped(columns.key), flipped(columns.value)
    work = np.zeros((6, BLOCK_ROWS, p.width), kind)
    return Space(
        row_buffers(p, same),
        columns,
        Columns(key, key if same else flipped(columns.distance_key), value),
        work,
        work.reshape((6, BLOCK_ROWS * p.width)),
        np.zeros((BLOCK_ROWS, p.width), kind),
        np.zeros(BLOCK_ROWS * p.width, np.uint8),
    )


@njit(**LOOP)
def load_rows(p: Any, b: int, t: int, rows: Any) -> None:
    """Copy the rows of a block from row t on."""
    load(p.query[b], t, rows.query)
    if not p.compares_same:
        load(p.distance_query[b], t, rows.distance_query)
    load(p.other_value[b], t, rows.other_value)
    load(p.alpha[b], t, rows.alpha)
    load(p.beta[b], t, rows.beta)
    load(p.similarity_offset[b], t, rows.similarity_offset)
    load(p.distance_offset[b], t, rows.distance_offset)


@njit(**LOOP)
def load_columns(p: Any, b: int, s: int, columns: Any, keys: Any) -> None:
    """Copy the columns of a block from column s on, masked keys as 0, and their transposes."""
    load(p.key[b], s, columns.key)
    if not p.compares_same:
        load(p.distance_key[b], s, columns.distance_key)
    load(p.value[b], s, columns.value)
    if p.key_mask.shape[0]:
        for i in range(min(p.width, p.key_mask.shape[1] - s)):
            if not p.key_mask[b, s + i]:
                for of_key in columns:
                    of_key[i] = 0
    transpose(columns.key, keys.key)
    if not p.compares_same:
        transpose(columns.distance_key, keys.distance_key)
