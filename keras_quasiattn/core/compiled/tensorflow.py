"""The compiled loops as a Python function that a TensorFlow graph calls."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import forwardprop_util

from keras_quasiattn.core.compiled.arrays import Array
from keras_quasiattn.core.compiled.call import Call

Tensor = Any


def outputs(call: Call, tensors: list[Tensor], masks: list[Tensor]) -> Sequence[Tensor]:
    """Return the outputs of `call`; not for XLA or exported graphs."""
    if _have_tangents([*tensors, *masks]):
        return call.with_tensors((*tensors, *masks))
    _forbid_export(call)
    dtype = tensors[0].dtype

    @tf.custom_gradient
    def called(*arguments: Tensor) -> tuple[Any, Callable[..., Sequence[Tensor]]]:
        def gradient(*upstreams: Tensor) -> Sequence[Tensor]:
            return _gradients(call, upstreams, arguments, masks)

        shapes = call.output_shapes([argument.shape for argument in arguments])
        inputs = (*arguments, *masks)
        return tuple(_call(lambda *arrays: call.run(arrays), inputs, dtype, shapes)), gradient

    found: Sequence[Tensor] = called(*tensors)
    return found


def _have_tangents(tensors: Sequence[Tensor]) -> bool:
    """Return whether a `tf.autodiff.ForwardAccumulator` follows one of the tensors.

    It would take the loops' derivatives for 0. TensorFlow has no public name for this.
    """
    return bool(forwardprop_util.pack_tangents(list(tensors)).tangents)


def _gradients(
    call: Call, upstreams: Sequence[Tensor], arguments: Sequence[Tensor], masks: Sequence[Tensor]
) -> Sequence[Tensor]:
    """Return the gradients of the arguments; tensors compute gradients of these."""
    count = len(upstreams)
    if _have_tangents([*upstreams, *arguments]):
        return _with_tensors(call, upstreams, arguments, masks)

    def run(*arrays: Array) -> Sequence[Array]:
        return call.run(arrays[count:], arrays[:count])

    @tf.custom_gradient
    def slopes(*given: Tensor) -> tuple[Any, Callable[..., Sequence[Tensor]]]:
        def gradient(*seconds: Tensor) -> Sequence[Tensor]:
            with tf.GradientTape() as outer:
                outer.watch(given)
                found = _with_tensors(call, given[:count], given[count:], masks)
            second: Sequence[Tensor] = outer.gradient(found, given, seconds, "zero")
            return second

        shapes = [argument.shape for argument in arguments]
        return tuple(_call(run, (*given, *masks), arguments[0].dtype, shapes)), gradient

    found: Sequence[Tensor] = slopes(*upstreams, *arguments)
    return found


def _with_tensors(
    call: Call, upstreams: Sequence[Tensor], arguments: Sequence[Tensor], masks: Sequence[Tensor]
) -> Sequence[Tensor]:
    """Return the gradients of the arguments by operations that can be differentiated again."""
    with tf.GradientTape() as tape:
        tape.watch(arguments)
        outputs = call.with_tensors((*arguments, *masks))
    found: Sequence[Tensor] = tape.gradient(outputs, arguments, upstreams, "zero")
    return found


def _call(
    function: Callable[..., Sequence[Array]],
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


_handles: dict[str, Tensor] = {}


def _forbid_export(call: Call) -> None:
    """Make it an error to save a graph that calls compiled loops, which only this process has.

    The graph captures a resource that nothing tracks, and TensorFlow's error names it.
    """
    if tf.executing_eagerly():
        return
    name = re.sub(r"\W+", "_", f"compiled loops cannot be exported {call.way_out}")
    if name not in _handles:
        with tf.init_scope():
            _handles[name] = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=(), shared_name=name)
    # Each graph captures it from the one around it: TensorFlow cannot differentiate a branch that
    # captures an eager tensor in a loop.
    handle, graph, within = _handles[name], tf.compat.v1.get_default_graph(), []
    while hasattr(graph, "capture"):
        within.append(graph)
        graph = graph.outer_graph
    for graph in reversed(within):
        handle = graph.capture(handle)
    tf.identity(handle)
