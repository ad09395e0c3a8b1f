"""`runs_at_once` for TensorFlow."""

import tensorflow as tf


def runs_at_once() -> bool:
    """True in eager mode. In a graph it is False: whether XLA will compile it cannot be known while tracing."""
    return tf.executing_eagerly()
