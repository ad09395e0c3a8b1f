"""`tiled_sums` in compiled CPU loops, which a TensorFlow graph calls as a Python function."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from keras_quasiattn.attention.coda.compiled.passes import GIVEN, Passes, Settings
from keras_quasiattn.attention.coda.tiles import TiledWeights

Tensor = Any
Array = np.ndarray


def compiled_sums(weights: TiledWeights, tensors: dict[str, Tensor]) -> tuple[Tensor, ...]:
    """Like `coda.tiles.tiled_sums`, with "alpha" and "beta" (B, T, 1); without XLA and export.

    If the distance compares the tensors "query" and "key" themselves, the loops read each once and
    return one gradient of it.
    """
    _forbid_export()
    same = "query" in tensors and all(
        tensors[name] is tensors.get(f"distance_{name}") for name in ("query", "key")
    )
    twice = ("distance_query", "distance_key") if same else ()
    names = tuple(name for name in GIVEN if name in tensors and name not in twice)
    dtype, both_ways = tensors["value"].dtype, "other_value" in tensors
    masks = {name: mask for name, mask in _masks(weights).items() if mask is not None}
    rule = weights.rule
    settings = Settings(
        rule.similarity, rule.gate, rule.scale, weights.masks.is_causal, weights.dropout, same
    )

    def passes(arrays: Sequence[Array]) -> Passes:
        return Passes(settings, dict(zip((*names, *masks), arrays, strict=True)))

    @tf.custom_gradient
    def pooled(*arguments: Tensor) -> tuple[Any, Callable[..., list[Tensor]]]:
        def gradient(*upstreams: Tensor) -> list[Tensor]:
            def run(*arrays: Array) -> list[Array]:
                count = len(upstreams)
                return passes(arrays[count:]).backward(arrays[:count], names)

            inputs = (*upstreams, *arguments, *masks.values())
            return _call(run, inputs, dtype, [argument.shape for argument in arguments])

        named = dict(zip(names, arguments, strict=True))
        shapes = [(*named["beta"].shape[:2], named["value"].shape[2])]
        if both_ways:
            shapes.append((*named["value"].shape[:2], named["other_value"].shape[2]))
        inputs = (*arguments, *masks.values())
        return tuple(
            _call(lambda *arrays: passes(arrays).forward(), inputs, dtype, shapes)
        ), gradient

    return tuple(pooled(*(tensors[name] for name in names)))


def _masks(weights: TiledWeights) -> dict[str, Tensor | None]:
    masks = weights.masks
    found = {
        "key_mask": masks.key_mask,
        "row_mask": masks.row_mask,
        "dropout_keys": weights.dropout_keys,
    }
    if masks.full_mask is not None:
        # One mask may serve several batches or heads. It is passed once, (masks, T, S), with the
        # index of its mask for each of B.
        lead = tf.shape(masks.full_mask)[:-2]
        numbers = tf.reshape(tf.range(tf.reduce_prod(lead)), lead)
        found["full_index"] = tf.reshape(tf.broadcast_to(numbers, masks.lead), (-1,))
        found["full_mask"] = tf.reshape(masks.full_mask, (-1, masks.target, masks.padded_source))
    return found


def _call(
    function: Callable[..., list[Array]],
    inputs: Sequence[Tensor],
    dtype: Any,
    shapes: Sequence[Any],
) -> list[Tensor]:
    results = tf.numpy_function(function, inputs, [dtype] * len(shapes))
    # In eager mode, one result comes back as a tensor, not as a list.
    results = [results] if tf.is_tensor(results) else list(results)
    for result, shape in zip(results, shapes, strict=True):
        result.set_shape(shape)
    return results


_handle: Tensor | None = None


def _forbid_export() -> None:
    """Make it an error to save a graph that calls compiled loops, which only this process has.

    The graph captures a resource that no object tracks. TensorFlow refuses to save such a graph,
    and its error names the resource.
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
