"""Macro-F1 of a classifier, for use in training."""

from typing import Any

import keras
from keras import ops

from keras_quasiattn.core.configured import Configured


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class MacroF1(Configured, keras.metrics.Metric):
    """Mean F1 of the classes that are among the labels or the answers, over all batches.

    F1 = 2·right / (answered + count), as in `classification_figures`.

    Args:
        classes: number of classes.
        name: name of the metric in logs.
        dtype: dtype of the result.

    Call arguments:
        y_true: (B, classes), one-hot.
        y_pred: (B, classes), logits or probabilities; the largest is the answer.
        sample_weight: (B,), weights of the examples; None gives all weight 1.

    >>> metric = MacroF1(2)
    >>> metric.update_state(np.eye(2)[[0, 1, 1]], np.array([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8]]))
    >>> round(float(metric.result()), 3)
    0.667
    """

    def __init__(self, classes: int, name: str = "macro_f1", dtype: Any = None) -> None:
        super().__init__(name=name, dtype=dtype)
        self.classes = classes
        self.right, self.answered, self.counts = (
            self.add_variable((classes,), "zeros", dtype="float32", name=part)
            for part in ("right", "answered", "counts")
        )

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Add a batch."""
        labels = ops.cast(y_true, "float32")
        answers = ops.one_hot(ops.argmax(y_pred, axis=-1), self.classes, dtype="float32")
        weights = ops.ones(ops.shape(labels)[:1]) if sample_weight is None else sample_weight
        weights = ops.reshape(ops.cast(weights, "float32"), (-1, 1))
        self.right.assign_add(ops.sum(weights * labels * answers, axis=0))
        self.answered.assign_add(ops.sum(weights * answers, axis=0))
        self.counts.assign_add(ops.sum(weights * labels, axis=0))

    def result(self) -> Any:
        """Return the mean F1 so far; 0 before the first batch."""
        both = self.answered + self.counts
        f1 = ops.divide_no_nan(2.0 * self.right, both)
        found = ops.sum(ops.cast(both > 0, "float32"))
        return ops.divide_no_nan(ops.sum(f1), found)
