"""Runs the compiled passes on all cores: pads arrays of any size, and cuts the results back."""

import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from keras_quasiattn.ops.coda.compiled import attention
from keras_quasiattn.ops.coda.compiled.attention import BLOCK_ROWS, Problem
from keras_quasiattn.ops.coda.compiled.elementwise import FUNCTION_CODES
from keras_quasiattn.ops.coda.compiled.vectors import LANES

Array = np.ndarray

_COLUMNS = 256  # most columns of a block of M, so that its arrays fit the second-level cache
_PIECES = 8  # independent pieces of work to aim at if there are few batches and heads
_ALIGNMENT = 64  # bytes
_LOOPS: Any = attention  # compiled functions are untyped
GIVEN = Problem._fields[:10]  # the arrays with gradients
_OF_SCALARS = ("alpha", "beta", "similarity_offset", "distance_offset")
_OF_ROWS = ("query", "distance_query", "other_value", *_OF_SCALARS)


class Settings(NamedTuple):
    """The options of a layer, the same in every call.

    Args:
        similarity: a name in `FUNCTION_CODES`, or None if M does not depend on E.
        gate: the same for N.
        scale: factor of M.
        is_causal: row t attends to columns 0 … t only.
        dropout: fraction of M to drop.
    """

    similarity: str | None
    gate: str | None
    scale: int
    is_causal: bool
    dropout: float


@cache
def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def _workers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=_cores(), thread_name_prefix="quasiattn")


def _on_all_cores(loop: Callable[..., None], problem: Problem, *arguments: Any) -> None:
    """Runs `loop` once per core, each on a share of the pieces; compiled code releases the GIL."""
    pieces = problem.value.shape[0] * problem.chunks
    count = max(1, min(_cores(), pieces))
    others = [
        _workers().submit(loop, problem, first, count, *arguments) for first in range(1, count)
    ]
    loop(problem, 0, count, *arguments)
    for other in others:
        other.result()


def _whole(length: int, size: int) -> int:
    return -(-length // size) * size


def _pad(x: Array, *lengths: int | None) -> Array:
    """`x` padded with zeros up to `lengths` (None: unchanged), contiguous."""
    missing = [
        (0, 0 if want is None else want - have) for want, have in zip(lengths, x.shape, strict=True)
    ]
    return np.pad(x, missing) if any(more for _, more in missing) else np.ascontiguousarray(x)


def _pad_features(x: Array, shape: tuple[int, int, int], is_real: Array | None = None) -> Array:
    """`x` (B, length, features) padded with zeros to `shape`, with zeros where not real."""
    if x.shape == shape and is_real is None:
        return np.ascontiguousarray(x)
    out = np.empty(shape, x.dtype)
    nothing = np.zeros((0, 0), np.uint8)
    _LOOPS.pad(
        _read_only(np.ascontiguousarray(x)),
        _read_only(nothing if is_real is None else is_real),
        out,
    )
    return out


class Passes:
    """The forward and backward pass over one set of arrays.

    Args:
        settings: how M is composed.
        arrays: by the names of `Problem`, without padding and in one dtype, float32 or float64.
            Required: "value" (B, S, V), "beta" (B, T, 1), and "alpha" (B, T, 1) if "query" is
            given. Optional: the others up to "distance_offset"; boolean "key_mask" (B, 1, S or
            more), "row_mask" (B, T, 1), and "full_mask" (masks, T, S or more) with integers
            "full_index" (B,); integers "dropout_keys" (B,).
    """

    def __init__(self, settings: Settings, arrays: dict[str, Array]) -> None:
        value = arrays["value"]
        self.arrays, self.dtype, self.batch = arrays, value.dtype.type, value.shape[0]
        self.target, self.source = arrays["beta"].shape[1], value.shape[1]
        blocks = max(1, -(-self.source // _COLUMNS))
        width = _whole(-(-max(1, self.source) // blocks), LANES)
        self.rows, self.columns = _whole(self.target, BLOCK_ROWS), blocks * width
        self.chunks = max(1, min(-(-_PIECES // max(1, self.batch)), self.rows // (4 * BLOCK_ROWS)))
        key_mask, row_mask, full_mask, full_index = self._masks()
        self.is_real = key_mask if key_mask.size else None
        self.problem = Problem(
            **{name: _read_only(self._padded(name)) for name in GIVEN},
            similarity_code=FUNCTION_CODES[settings.similarity],
            gate_code=FUNCTION_CODES[settings.gate],
            scale=self.dtype(settings.scale),
            key_mask=_read_only(key_mask),
            row_mask=_read_only(row_mask),
            full_mask=_read_only(full_mask),
            full_index=_read_only(full_index),
            is_causal=settings.is_causal,
            dropout_keys=_read_only(arrays.get("dropout_keys", np.zeros(0, np.int32))),
            dropout_threshold=np.uint32(round(settings.dropout * (1 << 24))),
            kept_factor=self.dtype(1 / (1 - settings.dropout)),
            chunks=self.chunks,
            width=width,
        )

    def _masks(self) -> tuple[Array, ...]:
        arrays = self.arrays
        row_mask, key_mask = np.zeros((0, 0), np.uint8), np.zeros((0, 0), np.uint8)
        full_mask, full_index = np.zeros((0, 0, 0), np.uint8), np.zeros(0, np.int64)
        if "row_mask" in arrays:
            row_mask = _pad(arrays["row_mask"][..., 0].astype(np.uint8), None, self.rows)
        if self.columns != self.source or "key_mask" in arrays or "full_mask" in arrays:
            key_mask = np.ones((self.batch, self.source), np.uint8)
            if "key_mask" in arrays:
                key_mask &= arrays["key_mask"][:, 0, : self.source]
            key_mask = _pad(key_mask, None, self.columns)
        if "full_mask" in arrays:
            full_mask = arrays["full_mask"][..., : self.source].astype(np.uint8)
            full_mask = _pad(full_mask, None, self.rows, self.columns)
            full_index = arrays["full_index"].astype(np.int64)
            # A key that no query attends to is padding.
            if full_mask.shape[0]:
                key_mask &= np.any(full_mask, axis=1)[full_index]
        return key_mask, row_mask, full_mask, full_index

    def _shape(self, name: str) -> tuple[int, int, int]:
        rows = self.rows if name in _OF_ROWS else self.columns
        features = self.arrays[name].shape[2] if name in self.arrays else 0
        return self.batch, rows, features if name in _OF_SCALARS else _whole(features, LANES)

    def _padded(self, name: str) -> Array:
        shape = self._shape(name)
        if not shape[2]:
            return np.zeros(shape, self.dtype)
        return _pad_features(self.arrays[name], shape, None if name in _OF_ROWS else self.is_real)

    def _result_shape(self, name: str) -> tuple[int, int, int]:
        batch, length, features = self._shape(name)
        return batch if name in _OF_ROWS else batch * self.chunks, length, features

    def _rows(self, x: Array, name: str) -> Array:
        """Row results `x` cut to (B, T, features of `name`)."""
        return np.ascontiguousarray(x[:, : self.target, : self.arrays[name].shape[2]])

    def _columns(self, x: Array, name: str) -> Array:
        """Column results `x`, summed over chunks and cut to (B, S, features of `name`)."""
        if self.chunks > 1:
            # (B · chunks, columns, features) → (B, columns, features)
            x = x.reshape(self.batch, self.chunks, *x.shape[1:]).sum(1)
        return np.ascontiguousarray(x[:, : self.source, : self.arrays[name].shape[2]])

    def forward(self) -> list[Array]:
        """M · value (B, T, V), and Mᵀ · other_value (B, S, W) if it is given."""
        _, _, features = self._shape("value")
        other = (self.batch * self.chunks, self.columns, self._shape("other_value")[2])
        out, out_other = _empty([(self.batch, self.rows, features), other], self.dtype)
        _on_all_cores(_LOOPS.forward, self.problem, out, out_other)
        out = self._rows(out, "value")
        return (
            [out, self._columns(out_other, "other_value")]
            if "other_value" in self.arrays
            else [out]
        )

    def backward(self, upstreams: tuple[Array, ...], names: tuple[str, ...]) -> list[Array]:
        """Gradients of `names`, from the gradients of the results of `forward`."""
        g = _pad_features(upstreams[0], (self.batch, self.rows, self.problem.value.shape[2]))
        shape = self.batch, self.columns, self.problem.other_value.shape[2]
        g_other = (
            _pad_features(upstreams[1], shape)
            if len(upstreams) == 2
            else np.zeros(shape, self.dtype)
        )
        gradients = tuple(_empty([self._result_shape(name) for name in GIVEN], self.dtype))
        _on_all_cores(_LOOPS.backward, self.problem, _read_only(g), _read_only(g_other), gradients)
        found = dict(zip(GIVEN, gradients, strict=True))
        return [
            (self._rows if name in _OF_ROWS else self._columns)(found[name], name) for name in names
        ]


def _read_only(x: Array) -> Array:
    """A read-only view; with one array type for all inputs, Numba compiles each loop once."""
    x = x.view()
    x.flags.writeable = False
    return x


def _empty(shapes: list[tuple[int, ...]], dtype: Any) -> list[Array]:
    """Arrays in one block of memory, aligned so that TensorFlow uses them without a copy."""
    itemsize = np.dtype(dtype).itemsize
    lanes = _ALIGNMENT // itemsize
    sizes = [_whole(math.prod(shape), lanes) for shape in shapes]
    block = np.empty(sum(sizes) + lanes, dtype)
    start, found = -block.ctypes.data % _ALIGNMENT // itemsize, []
    for shape, size in zip(shapes, sizes, strict=True):
        found.append(block[start : start + math.prod(shape)].reshape(shape))
        start += size
    return found
