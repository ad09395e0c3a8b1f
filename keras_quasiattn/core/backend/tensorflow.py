"""TensorFlow: how a call or graph will run, and operations that are faster than in Keras."""

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from keras import ops

__all__ = ["absolute", "arctan", "cos", "cumsum", "maximum", "sin", "tanh"]

cumsum = functools.partial(ops.cumsum, axis=-1)
absolute, arctan, cos, maximum = ops.abs, ops.arctan, ops.cos, ops.maximum
sin, tanh = ops.sin, ops.tanh

Tensor = Any
WithGradient = tuple[tuple[Tensor, ...], Callable[..., tuple[Tensor, ...]]]


@contextlib.contextmanager
def functions_untraced() -> Iterator[None]:
    """Run `tf.function`s as plain Python; a traced one would pass over what it calls."""
    before = tf.config.functions_run_eagerly()
    tf.config.run_functions_eagerly(True)
    try:
        yield
    finally:
        tf.config.run_functions_eagerly(before)


def runs_op_by_op() -> bool:
    """Return True in eager mode, and in graphs that are not marked for XLA.

    `tf.function(jit_compile=True)` marks the graph around the one it traces with an XLA context.
    TensorFlow has no public name for this mark, so missing attributes are tolerated. If the mark is
    not found, results are the same, or XLA fails and names the operation it cannot compile.
    """
    graph = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
    while graph is not None:
        context = getattr(graph, "_get_control_flow_context", lambda: None)()
        if context is not None and getattr(context, "IsXLAContext", lambda: False)():
            return False
        graph = getattr(graph, "outer_graph", None)
    return True


def known_content(x: Tensor) -> np.ndarray | None:
    """Return the array of an eager tensor on the CPU."""
    return x.numpy() if tf.is_tensor(x) and hasattr(x, "numpy") and not on_accelerator(x) else None


def may_branch(x: Tensor) -> bool:
    """Return True unless XLA compiles the graph: XLA fuses the work that a branch would skip."""
    return runs_op_by_op()


# Keras' step functions in `fit`, `evaluate` and `predict`, which it never saves or exports.
_STEPS_OF_KERAS = {
    *("one_step_on_data", "one_step_on_iterator", "one_step_on_data_distributed"),
    *("multi_step_on_data", "multi_step_on_iterator"),
}


def obstacle_to_loops(x: Tensor, features: int) -> str | None:
    """Say why loops cannot run: XLA compiles the graph, or TensorFlow uses an accelerator."""
    if not runs_op_by_op():
        return "cannot be compiled by XLA (`jit_compile=True`)"
    if on_accelerator(x):
        return "runs only where TensorFlow sees no GPU or TPU"
    return None


def keeps_loops(training: Callable[[], bool]) -> bool:
    """Return True in eager mode, in updates, and in Keras' own step functions.

    Such graphs are never exported, and run on another machine only if the distribution strategy
    uses one. Any other graph may be exported.
    """
    if tf.executing_eagerly():
        return True
    local = (tf.distribute.OneDeviceStrategy, tf.distribute.MirroredStrategy)
    near = isinstance(tf.distribute.get_strategy(), local) or not tf.distribute.has_strategy()
    return near and (training() or _in_step_of_keras())


def _in_step_of_keras() -> bool:
    """Return whether `fit`, `evaluate` or `predict` is tracing, outside any inner `tf.function`.

    An inner function keeps its trace and may be exported later.
    """
    graph, functions = tf.compat.v1.get_default_graph(), set()
    while graph is not None:
        if type(graph).__name__ == "FuncGraph":  # loops and branches have a subclass
            functions.add(graph.name)
        graph = getattr(graph, "outer_graph", None)
    return bool(functions) and functions <= _STEPS_OF_KERAS


def on_accelerator(x: Tensor) -> bool:
    """Return whether TensorFlow has a GPU or TPU, on which it then places operations."""
    return any(tf.config.list_physical_devices(kind) for kind in ("GPU", "TPU"))


def with_gradient(
    compute: Callable[..., tuple[Tensor, ...]], gradient: Callable[..., tuple[Tensor, ...]]
) -> Callable[..., tuple[Tensor, ...]]:
    """Return `compute` with gradients from `gradient`."""

    def both(*tensors: Tensor) -> WithGradient:
        def slopes(*upstreams: Tensor) -> tuple[Tensor | None, ...]:
            found = gradient(tensors, upstreams)
            return *found, *[None] * (len(tensors) - len(found))

        return compute(*tensors), slopes

    found: Callable[..., tuple[Tensor, ...]] = tf.custom_gradient(both)
    return found


def add_rows(total: Tensor, x: Tensor) -> Tensor:
    """Return total + Σ_n x[n] for a known N; `tf.reduce_sum` takes twice as long."""
    return tf.add_n([total, *tf.unstack(x)])


def loop(lower: Any, upper: Any, body: Callable[[Any, Any], Any], start: Any) -> Any:
    """Run `keras.ops.fori_loop` one step at a time; Keras would start up to ten at once."""
    return tf.while_loop(
        lambda index, _: index < upper,
        lambda index, state: (index + 1, body(index, state)),
        (lower, start),
        parallel_iterations=1,
    )[1]


def needs_static_shapes(x: Tensor) -> bool:
    """Return whether XLA compiles the graph: it has no kernels for sorted segments."""
    return not runs_op_by_op()


def segment_sum(data: Tensor, segment_ids: Tensor, num_segments: Any) -> Tensor:
    """Sum rows of `data` (K, ...) by ascending `segment_ids` (K,); 0 for an empty segment.

    TensorFlow's sorted reductions are twice as fast as the unsorted ones that Keras calls.
    """
    return _with_all_segments(tf.math.segment_sum(data, segment_ids), num_segments)


def segment_max(data: Tensor, segment_ids: Tensor, num_segments: Any) -> Tensor:
    """Return the maxima of rows of `data` (K, ...) by ascending `segment_ids` (K,); 0 for none."""
    return _with_all_segments(tf.math.segment_max(data, segment_ids), num_segments)


def _with_all_segments(reduced: Tensor, num_segments: Any) -> Tensor:
    # TensorFlow returns segments up to the last one with a row: pad to (num_segments, ...).
    missing = num_segments - tf.shape(reduced)[0]
    return tf.pad(reduced, [[0, missing]] + [[0, 0]] * (len(reduced.shape) - 1))


def in_turn(
    calls: Sequence[Callable[..., tuple[Tensor, ...]]], inputs: Sequence[Sequence[Tensor]]
) -> list[tuple[Tensor, ...]]:
    """Run the calls one after the other, forward and backward, and return their outputs.

    Each call passes a token to the next one, and the token's gradient back to the previous one.
    """
    token, results = tf.zeros(()), []
    for call, given in zip(calls, inputs, strict=True):
        token, *ready = _begin(token, *given)
        token, *result = _end(token, *call(*ready))
        results.append(tuple(result))
    return results


@tf.custom_gradient
def _begin(token: Tensor, *inputs: Tensor) -> WithGradient:
    """Make the inputs wait for the token; backward, its gradient waits for theirs."""

    def gradient(upstream: Tensor, *upstreams: Tensor) -> tuple[Tensor, ...]:
        return (*_after(upstreams, upstream), *upstreams)

    return (token, *_after([token], *inputs)), gradient


@tf.custom_gradient
def _end(token: Tensor, *outputs: Tensor) -> WithGradient:
    """Make the token wait for the outputs; backward, their gradients wait for its own."""

    def gradient(upstream: Tensor, *upstreams: Tensor) -> tuple[Tensor, ...]:
        return (upstream, *_after([upstream], *upstreams))

    return (*_after(outputs, token), *outputs), gradient


def _after(first: Sequence[Tensor], *then: Tensor) -> tuple[Tensor, ...]:
    with tf.control_dependencies(list(first)):
        return tuple(tf.identity(one) for one in then)


def map_tiles(
    function: Callable[..., Tensor], count: Any, tiles: dict[str, Tensor], shared: dict[str, Tensor]
) -> Tensor:
    """Map a function over tiles, one at a time; the backward pass recomputes each."""
    names, split = (*tiles, *shared), len(tiles)  # the first tensors are tiled

    def of_tile(index: Tensor, *given: Tensor) -> Tensor:
        return function(index, **dict(zip(names, given, strict=True)))

    def parts(index: Tensor, tensors: Sequence[Tensor]) -> list[Tensor]:
        return [*[tf.gather(x, index) for x in tensors[:split]], *tensors[split:]]

    @tf.custom_gradient
    def mapped(*tensors: Tensor) -> Any:
        outputs = tf.map_fn(
            lambda index: of_tile(index, *parts(index, tensors)),
            tf.range(count),
            fn_output_signature=shared["value"].dtype,
            parallel_iterations=1,
        )

        def gradient(upstream: Tensor) -> list[Tensor]:
            def add(index: Tensor, totals: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
                given = parts(index, tensors)
                with tf.GradientTape() as tape:
                    tape.watch(given)
                    output = of_tile(index, *given)
                found = tape.gradient(output, given, tf.gather(upstream, index), "zero")
                pairs = list(zip(totals, found, strict=True))
                written = [total.write(index, one) for total, one in pairs[:split]]
                return index + 1, [*written, *[total + one for total, one in pairs[split:]]]

            start = [tf.TensorArray(x.dtype, size=count) for x in tensors[:split]]
            start += [tf.zeros_like(x) for x in tensors[split:]]
            _, totals = tf.while_loop(
                lambda index, _: index < count, add, (0, start), parallel_iterations=1
            )
            return [*[total.stack() for total in totals[:split]], *totals[split:]]

        return outputs, gradient

    return mapped(*map(tf.identity, (*tiles.values(), *shared.values())))
