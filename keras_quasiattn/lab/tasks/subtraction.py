"""Whether a trained model uses the weights with which its attention subtracts."""

from typing import Any

import keras
import tensorflow as tf

from keras_quasiattn.core.recording import editing
from keras_quasiattn.lab.tasks.measured import Measured
from keras_quasiattn.lab.tasks.task import Task

BELOW = -0.1
_FIRST = 100  # examples that show whether a model has negative weights at all


def subtraction(
    task: Task, model: keras.Model, split: str, limit: int | None, measured: Measured
) -> dict[str, float]:
    """Return the share of weights below −.1, and what the main metric loses if they become 0.

    `negative_share` is the share of the weights between two positions that are not padding;
    `drop_without_negative` is the metric `measured` with all weights minus the metric without
    these. If the first 100 examples have no negative weight, both are 0, and the others are not
    read. Of an attention beside softmax, its own weights count. Return {} if no attention of this
    package computed weights.
    """
    visible, negative, _, _ = _without(task, model, split, min(_FIRST, limit or _FIRST))
    if not visible:
        return {}
    if not negative:
        return {"negative_share": 0.0, "drop_without_negative": 0.0}
    visible, _, below, figures = _without(task, model, split, limit)
    drop = measured.figures[task.figure] - figures[task.figure]
    return {"negative_share": below / visible, "drop_without_negative": drop}


def _without(task: Task, model: keras.Model, split: str, limit: int | None) -> tuple[Any, ...]:
    """Return how many weights are visible, below 0 and below −.1, and the metrics without these."""
    counts = tf.Variable(tf.zeros(3, tf.int64), trainable=False)

    def without_negative(weights: tf.Tensor, visible: tf.Tensor | None) -> tf.Tensor:
        # (..., T, S)
        seen = tf.ones(tf.shape(weights), tf.bool)
        if visible is not None:
            seen &= tf.cast(visible, tf.bool)
        found = [seen, seen & (weights < 0), seen & (weights < BELOW)]
        counts.assign_add(tf.stack([tf.math.count_nonzero(pairs) for pairs in found]))
        return tf.where(weights < BELOW, tf.zeros_like(weights), weights)

    with editing(without_negative):
        figures = task.measure(model, split, limit).figures
    return (*map(int, counts), figures)
