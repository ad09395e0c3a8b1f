"""Whether a trained model uses the weights with which its attention subtracts."""

from collections.abc import Mapping
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

    The loss is the metric with all weights minus the metric without these, on the same examples.

    Args:
        task: the task, prepared.
        model: its trained model.
        split: as for `task.measure`.
        limit: as for `task.measure`.
        measured: what `task.measure` returned.

    Returns:
        `negative_share` and `drop_without_negative`; nothing if no attention of this package
        computed weights.
    """
    count = _Count()
    with editing(count.without_negative):
        task.measure(model, split, min(_FIRST, limit or _FIRST))
    if not count.visible():
        return {}
    if not count.negative():
        return {"negative_share": 0.0, "drop_without_negative": 0.0}
    count = _Count()
    with editing(count.without_negative):
        rest: Mapping[str, Any] = task.measure(model, split, limit).figures
    return {
        "negative_share": count.below() / count.visible(),
        "drop_without_negative": measured.figures[task.figure] - rest[task.figure],
    }


class _Count:
    """Counts of weights, and an edit that sets those below −.1 to 0."""

    def __init__(self) -> None:
        # [visible, below 0, below −.1]
        self._counts = tf.Variable(tf.zeros(3, tf.int64), trainable=False)

    def visible(self) -> int:
        return int(self._counts[0])

    def negative(self) -> int:
        return int(self._counts[1])

    def below(self) -> int:
        return int(self._counts[2])

    def without_negative(self, weights: tf.Tensor, visible: tf.Tensor | None) -> tf.Tensor:
        # (..., T, S); masked pairs have weight 0
        everywhere = tf.ones(tf.shape(weights), tf.bool)
        seen = everywhere if visible is None else everywhere & tf.cast(visible, tf.bool)
        counted = [tf.math.count_nonzero(pairs) for pairs in (seen, weights < 0, weights < BELOW)]
        self._counts.assign_add(tf.stack(counted))
        return tf.where(weights < BELOW, tf.zeros_like(weights), weights)
