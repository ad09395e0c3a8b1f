"""`tiled_sums` through compiled CPU loops, as a host function of TensorFlow graphs."""

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from keras_quasiattn.ops import compiled_attention
from keras_quasiattn.ops.coda_tiles import TiledWeights
from keras_quasiattn.ops.compiled_elementwise import GATE_CODES, SIMILARITY_CODES
from keras_quasiattn.ops.compiled_loops import ROWS

Tensor = Any
Array = np.ndarray

_COLUMNS = 256  # of a block of M: several such blocks fit the first-level cache
_LANES = 16
_ITEMS = 8  # independent pieces of work to aim at, where there are few batches and heads
_NAMES = (
    "query",
    "key",
    "distance_query",
    "distance_key",
    "value",
    "other_value",
    "beta",
    "similarity_offset",
    "distance_offset",
)
_ROWS_SIDE = ("query", "distance_query", "other_value", "beta", "similarity_offset", "distance_offset")


def compiled_sums(weights: TiledWeights, tensors: dict[str, Tensor]) -> tuple[Tensor, ...]:
    """As `coda_tiles.tiled_sums`, "alpha" and "beta_full" excepted. Not for XLA, nor for export."""
    _forbid_export()
    names = tuple(name for name in _NAMES if name in tensors)
    masks = weights.masks
    dtype = tensors["value"].dtype
    extra = {"key_mask": masks.key_mask, "row_mask": masks.row_mask, "full_mask": masks.full_mask}
    if masks.full_mask is not None:
        numbers = tf.reshape(
            tf.range(tf.reduce_prod(tf.shape(masks.full_mask)[:-2])), tf.shape(masks.full_mask)[:-2]
        )
        extra["full_index"] = tf.reshape(tf.broadcast_to(numbers, masks.lead), (-1,))
        extra["full_mask"] = tf.reshape(masks.full_mask, (-1, masks.target, masks.padded_source))
    extra["dropout_keys"] = weights.dropout_keys
    given = {name: tensor for name, tensor in extra.items() if tensor is not None}
    others = tuple(given.values())

    @tf.custom_gradient
    def pooled(*arguments: Tensor) -> tuple[Any, Callable[..., list[Tensor]]]:
        count = 2 if "other_value" in names else 1

        def run(*arrays: Array) -> list[Array]:
            problem = _Problem(weights, dict(zip((*names, *given), arrays, strict=True)))
            return problem.forward()

        def run_backward(*arrays: Array) -> list[Array]:
            problem = _Problem(weights, dict(zip((*names, *given), arrays[count:], strict=True)))
            return problem.backward(arrays[:count], names)

        def gradient(*upstreams: Tensor) -> list[Tensor]:
            gradients = _call(run_backward, (*upstreams, *arguments, *others), dtype, len(names))
            for result, argument in zip(gradients, arguments, strict=True):
                result.set_shape(argument.shape)
            return gradients

        outputs = _call(run, (*arguments, *others), dtype, count)
        named = dict(zip(names, arguments, strict=True))
        outputs[0].set_shape((*named["beta"].shape[:2], named["value"].shape[2]))
        if count == 2:
            outputs[1].set_shape((*named["value"].shape[:2], named["other_value"].shape[2]))
        return tuple(outputs), gradient

    return tuple(pooled(*(tensors[name] for name in names)))


def _call(
    function: Callable[..., list[Array]], inputs: tuple[Tensor, ...], dtype: Any, count: int
) -> list[Tensor]:
    results = tf.numpy_function(function, inputs, [dtype] * count)
    return [results] if tf.is_tensor(results) else list(results)  # a list of one comes back bare when eager


def _read_only(*arguments: Any) -> tuple[Any, ...]:
    """Arrays marked read-only, whether TensorFlow or NumPy made them: one type, so one compilation."""
    marked = []
    for argument in arguments:
        if isinstance(argument, np.ndarray):
            argument = argument.view()
            argument.flags.writeable = False
        marked.append(argument)
    return tuple(marked)


class _Problem:
    """Arrays of one pass, padded to whole blocks, in the order that the compiled passes take them."""

    def __init__(self, weights: TiledWeights, arrays: dict[str, Array]) -> None:
        value = arrays["value"]
        self.both_ways = "other_value" in arrays  # also where it is empty
        self.dtype, self.batch = value.dtype.type, value.shape[0]
        self.target, self.source = arrays["beta"].shape[1], value.shape[1]
        blocks = max(1, -(-self.source // _COLUMNS))
        self.width = -(-max(1, self.source) // (blocks * _LANES)) * _LANES
        self.columns, self.rows = blocks * self.width, -(-self.target // ROWS) * ROWS
        self.chunks = max(1, min(-(-_ITEMS // max(1, self.batch)), self.rows // (4 * ROWS)))
        masks = weights.masks
        nothing = np.zeros((0, 0, 0), np.uint8)
        # `real_keys` also leaves out keys that no row of a full mask attends to.
        key_mask = np.zeros((self.batch, self.columns), np.uint8)
        key_mask[:, : self.source] = 1
        if "key_mask" in arrays:
            key_mask[:, : self.source] &= arrays["key_mask"][:, 0, : self.source]
        row_mask = np.zeros((0, 0), np.uint8)
        if "row_mask" in arrays:
            row_mask = self._pad(arrays["row_mask"][..., 0].astype(np.uint8), 1, self.rows)
        full, index = nothing, np.zeros(0, np.int64)
        if "full_mask" in arrays:
            full = self._pad(arrays["full_mask"][..., : self.source].astype(np.uint8), 1, self.rows)
            full, index = self._pad(full, 2, self.columns), arrays["full_index"].astype(np.int64)
            seen = np.any(full, axis=1)[index] if full.shape[0] else key_mask.astype(bool)
            key_mask &= seen.astype(np.uint8)
        masked = bool(self.columns != self.source or len({"key_mask", "row_mask", "full_mask"} & set(arrays)))
        self.real = key_mask[:, :, None].astype(bool) if masked else None
        absent = np.zeros((self.batch, self.rows, 0), self.dtype)
        self.tensors = {name: self._padded(name, arrays.get(name, absent)) for name in _NAMES}
        if "query" not in arrays:
            self.tensors["key"] = np.zeros((self.batch, self.columns, 0), self.dtype)
        if "distance_query" not in arrays:
            self.tensors["distance_key"] = np.zeros((self.batch, self.columns, 0), self.dtype)
        rule = weights.rule
        rate = weights.dropout
        self.arguments = _read_only(
            *(self.tensors[name] for name in _NAMES),
            (SIMILARITY_CODES[rule.similarity], GATE_CODES[rule.gate]),
            self.dtype(rule.scale),
            masked or masks.is_causal,
            key_mask,
            row_mask,
            full,
            index,
            masks.is_causal,
            arrays.get("dropout_keys", np.zeros(0, np.int32)),
            np.uint32(round(rate * (1 << 24))),
            self.dtype(1 / (1 - rate)),
            self.chunks,
            self.width,
        )

    @staticmethod
    def _pad(x: Array, axis: int, length: int) -> Array:
        missing = [(0, 0)] * x.ndim
        missing[axis] = (0, length - x.shape[axis])
        return np.pad(x, missing) if missing[axis][1] else np.ascontiguousarray(x)

    def _padded(self, name: str, x: Array) -> Array:
        if name in _ROWS_SIDE:
            return self._pad(x, 1, self.rows)
        x = self._pad(x, 1, self.columns) if x.shape[2] else x
        return x if self.real is None or not x.shape[2] else np.where(self.real, x, self.dtype(0))

    def _zeros(self, name: str) -> Array:
        shape = self.tensors[name].shape
        chunks = 1 if name in _ROWS_SIDE else self.chunks
        return np.zeros((shape[0] * chunks, *shape[1:]), self.dtype)

    def _gathered(self, x: Array) -> Array:
        """Key-side sums of all chunks of rows together."""
        if self.chunks > 1:
            x = x.reshape(self.batch, self.chunks, *x.shape[1:]).sum(1)
        return np.ascontiguousarray(x[:, : self.source])

    def forward(self) -> list[Array]:
        """M · value, and Mᵀ · other_value where that is given."""
        other = self.tensors["other_value"]
        out = np.zeros((self.batch, self.rows, self.tensors["value"].shape[2]), self.dtype)
        shape = (self.batch * self.chunks, self.columns, other.shape[2])
        out_other = np.zeros(shape, self.dtype)
        compiled_attention.forward(*self.arguments, out, out_other)  # type: ignore[call-arg]
        outputs = [np.ascontiguousarray(out[:, : self.target])]
        return [*outputs, self._gathered(out_other)] if self.both_ways else outputs

    def backward(self, upstreams: tuple[Array, ...], names: tuple[str, ...]) -> list[Array]:
        """Gradients for `names`."""
        g = self._pad(upstreams[0], 1, self.rows)
        g_other = np.zeros((self.batch, self.columns, 0), self.dtype)
        if len(upstreams) == 2:
            g_other = self._pad(upstreams[1], 1, self.columns)
        gradients = {name: self._zeros(name) for name in _NAMES}
        arguments = (*self.arguments, *_read_only(g, g_other), *gradients.values())
        compiled_attention.backward(*arguments)
        results = []
        for name in names:
            if name in _ROWS_SIDE:
                results.append(np.ascontiguousarray(gradients[name][:, : self.target]))
            else:
                results.append(self._gathered(gradients[name]))
        return results


_handle: Tensor | None = None


def _forbid_export() -> None:
    """Makes saving a graph that calls compiled loops an error: it would hold a function of this process.

    TensorFlow refuses to save a function that captures a resource nothing tracks, and names that resource.
    """
    global _handle
    if tf.executing_eagerly():
        return
    if _handle is None:
        with tf.init_scope():
            _handle = tf.raw_ops.VarHandleOp(
                dtype=tf.float32,
                shape=(),
                shared_name="implementation_compiled_cannot_be_exported_use_blockwise",
            )
    tf.identity(_handle)
