"""`loop` for TensorFlow, where `keras.ops.fori_loop` starts up to ten steps at once, and keeps their tensors."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf


def loop(lower: Any, upper: Any, body: Callable[[Any, Any], Any], start: Any) -> Any:
    """`keras.ops.fori_loop` with one step in memory at a time; nested loops would multiply what is alive."""
    return tf.while_loop(
        lambda index, _: index < upper,
        lambda index, state: (index + 1, body(index, state)),
        (lower, start),
        parallel_iterations=1,
    )[1]
