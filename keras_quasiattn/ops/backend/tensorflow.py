"""TensorFlow: how it is going to run what is called or traced, and operations that are faster than Keras' own."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
from keras import ops
from tensorflow import add_n as add_all

__all__ = ["add_all", "arctan", "maximum", "tanh"]

arctan, maximum, tanh = ops.arctan, ops.maximum, ops.tanh

Tensor = Any
WithGradient = tuple[tuple[Tensor, ...], Callable[..., tuple[Tensor, ...]]]


def runs_op_by_op() -> bool:
    """True in eager mode and in graphs that nothing says XLA will compile.

    `tf.function(jit_compile=True)` marks the graph around the one it traces with an XLA context. TensorFlow has no
    public name for that mark, so it is looked for with care; where it is missing, results are the same, or XLA names
    what it cannot compile.
    """
    graph = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
    while graph is not None:
        context = getattr(graph, "_get_control_flow_context", lambda: None)()
        if context is not None and getattr(context, "IsXLAContext", lambda: False)():
            return False
        graph = getattr(graph, "outer_graph", None)
    return True


def stays_in_this_process(training: bool) -> bool:
    """True where operations may call back into this process: eagerly, and in training steps on local devices.

    A graph of a training step is neither exported nor sent away, unless the strategy has other machines; any other
    graph may be.
    """
    if tf.executing_eagerly():
        return True
    local = (tf.distribute.OneDeviceStrategy, tf.distribute.MirroredStrategy)
    near = isinstance(tf.distribute.get_strategy(), local) or not tf.distribute.has_strategy()
    return training and near


def has_accelerator() -> bool:
    """Whether TensorFlow may place operations elsewhere than on the CPU."""
    return any(tf.config.list_physical_devices(kind) for kind in ("GPU", "TPU"))


def loop(lower: Any, upper: Any, body: Callable[[Any, Any], Any], start: Any) -> Any:
    """`keras.ops.fori_loop`, which starts up to ten steps at once and keeps their tensors; this has one in memory."""
    return tf.while_loop(
        lambda index, _: index < upper,
        lambda index, state: (index + 1, body(index, state)),
        (lower, start),
        parallel_iterations=1,
    )[1]


def needs_static_shapes(x: Tensor) -> bool:
    """Whether the code around is being traced for XLA, which has no kernels for ordered segments."""
    return not runs_op_by_op()


def segment_sum(data: Tensor, segment_ids: Tensor, num_segments: Any) -> Tensor:
    """Sums of the rows of `data` (K, ...) by `segment_ids` (K,), ascending; 0 for a segment without rows.

    TensorFlow's ordered reductions are twice as fast as the unordered ones that Keras calls.
    """
    return _with_all_segments(tf.math.segment_sum(data, segment_ids), num_segments)


def segment_max(data: Tensor, segment_ids: Tensor, num_segments: Any) -> Tensor:
    """The largest row of each segment, ascending; 0 for a segment without rows."""
    return _with_all_segments(tf.math.segment_max(data, segment_ids), num_segments)


def _with_all_segments(reduced: Tensor, num_segments: Any) -> Tensor:
    # TensorFlow stops at the last segment that has a row.
    missing = num_segments - tf.shape(reduced)[0]
    return tf.pad(reduced, [[0, missing]] + [[0, 0]] * (len(reduced.shape) - 1))


def in_turn(
    calls: Sequence[Callable[..., tuple[Tensor, ...]]], inputs: Sequence[Sequence[Tensor]]
) -> list[tuple[Tensor, ...]]:
    """The outputs of each call; each begins when the one before has ended, and so do their gradients.

    A token goes from call to call, and its gradient comes back.
    """
    token, results = tf.zeros(()), []
    for call, given in zip(calls, inputs, strict=True):
        token, *ready = _begin(token, *given)
        token, *result = _end(token, *call(*ready))
        results.append(tuple(result))
    return results


@tf.custom_gradient
def _begin(token: Tensor, *inputs: Tensor) -> WithGradient:
    """The inputs once the token is there; the token's gradient once theirs are."""

    def gradient(upstream: Tensor, *upstreams: Tensor) -> tuple[Tensor, ...]:
        return (*_after(upstreams, upstream), *upstreams)

    return (token, *_after([token], *inputs)), gradient


@tf.custom_gradient
def _end(token: Tensor, *outputs: Tensor) -> WithGradient:
    """The token once the outputs are there; the outputs' gradients once the token's is."""

    def gradient(upstream: Tensor, *upstreams: Tensor) -> tuple[Tensor, ...]:
        return (upstream, *_after([upstream], *upstreams))

    return (*_after(outputs, token), *outputs), gradient


def _after(first: Sequence[Tensor], *then: Tensor) -> tuple[Tensor, ...]:
    with tf.control_dependencies(list(first)):
        return tuple(tf.identity(one) for one in then)
