"""Classification metrics: overall, by class, and calibration; macro-F1 during training."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_quasiattn.core.arguments import check_shape
from keras_quasiattn.core.configured import Configured

_BINS = 15


def classification_figures(
    labels: np.ndarray, probabilities: np.ndarray, classes: Sequence[str]
) -> dict[str, Any]:
    """Measure a classifier's probabilities against the classes of the examples.

    precision = right / answered;  recall = right / count;  F1 = 2·right / (answered + count)

    A quotient 0/0 is 0. For the expected calibration error, the examples are split into 15 bins of
    equal width by the probability of the answer; the error is the mean over examples of |accuracy −
    mean probability| of their bin.

    Args:
        labels: (examples,), class numbers; at least one example.
        probabilities: (examples, classes), finite, rows sum to 1. On ties the first class is the
            answer.
        classes: names of the classes.

    Returns:
        `accuracy`; `macro_f1`, the mean F1 of the classes that occur among the labels or answers;
        `cross_entropy` in nats; `expected_calibration_error`; and `per_class`: the `precision`,
        `recall`, `f1` and `count` (among the labels) of each class, by its name.

    Raises:
        ValueError: a row of `probabilities` has NaN or infinity, as after a diverged training.

    >>> figures = classification_figures(
    ...     np.array([0, 1, 1]), np.array([[0.5, 0.5], [0.5, 0.5], [0.0, 1.0]]), ["no", "yes"]
    ... )
    >>> {name: round(value, 3) for name, value in figures["per_class"]["no"].items()}
    {'precision': 0.5, 'recall': 1.0, 'f1': 0.667, 'count': 1}
    >>> round(figures["accuracy"], 3), round(figures["expected_calibration_error"], 3)
    (0.667, 0.0)

    Source: Naeini, Cooper and Hauskrecht 2015; Guo et al. 2017, "On Calibration of Modern Neural
    Networks".
    """
    finite = np.isfinite(probabilities).all(axis=1)
    if not finite.all():  # argmax takes NaN for the largest number
        row = int(finite.argmin())
        raise ValueError(
            "`probabilities` must be finite: the training diverged, or the data hold NaN. "
            f"Received: probabilities[{row}]={probabilities[row].tolist()}"
        )
    answers = probabilities.argmax(axis=1)
    right = answers == labels
    sizes = {"minlength": len(classes)}
    hits = np.bincount(labels[right], **sizes)
    answered, counts = np.bincount(answers, **sizes), np.bincount(labels, **sizes)
    precision, recall = hits / np.maximum(answered, 1), hits / np.maximum(counts, 1)
    f1 = 2 * hits / np.maximum(answered + counts, 1)
    of_labels = probabilities[np.arange(len(labels)), labels].astype(np.float64)
    return {
        "accuracy": float(np.mean(right)),
        "macro_f1": float(np.mean(f1[answered + counts > 0])),
        "cross_entropy": float(-np.mean(np.log(np.maximum(of_labels, np.finfo(np.float32).tiny)))),
        "expected_calibration_error": _calibration_error(probabilities.max(axis=1), right),
        "per_class": {
            name: {"precision": float(p), "recall": float(r), "f1": float(f), "count": int(count)}
            for name, p, r, f, count in zip(classes, precision, recall, f1, counts, strict=True)
        },
    }


def _calibration_error(confidence: np.ndarray, right: np.ndarray) -> float:
    bins = np.minimum((confidence * _BINS).astype(np.int64), _BINS - 1)
    # For each bin, the sum over its examples of right minus confidence.
    gaps = np.bincount(bins, weights=right - confidence.astype(np.float64), minlength=_BINS)
    return float(np.sum(np.abs(gaps)) / len(right))


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class MacroF1(Configured, keras.metrics.Metric):
    """Mean F1 of the classes that are among the labels or the answers, over all batches.

    F1 = 2·right / (answered + count), as in `classification_figures`.

    Args:
        classes: number of classes.
        name: name of the metric in logs. Defaults to "macro_f1".
        dtype: dtype of the result.

    Call arguments:
        y_true: (B, classes), one-hot.
        y_pred: (B, classes), logits or probabilities; the largest is the answer. NaN in a row of
            any weight but 0 makes the result NaN.
        sample_weight: (B,), weights of the examples; None gives all weight 1.

    Raises:
        ValueError: `y_true` is not (B, classes), such as class numbers.

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
        fits = len(labels.shape) == 2 and labels.shape[1] in (None, self.classes)
        check_shape(fits, labels.shape, "y_true", f"shape (B, {self.classes}), one-hot")
        answers = ops.one_hot(ops.argmax(y_pred, axis=-1), self.classes, dtype="float32")
        weights = ops.ones(ops.shape(labels)[:1]) if sample_weight is None else sample_weight
        weights = ops.reshape(ops.cast(weights, "float32"), (-1, 1))
        # argmax takes NaN for a class.
        unknown = ops.any(ops.isnan(y_pred), axis=-1, keepdims=True)
        unknown = ops.logical_and(unknown, weights != 0)
        answers = ops.where(unknown, float("nan"), answers)
        self.right.assign_add(ops.sum(weights * labels * answers, axis=0))
        self.answered.assign_add(ops.sum(weights * answers, axis=0))
        self.counts.assign_add(ops.sum(weights * labels, axis=0))

    def result(self) -> Any:
        """Return the mean F1 so far; 0 before the first batch."""
        both = self.answered + self.counts
        f1 = ops.divide_no_nan(2.0 * self.right, both)
        found = ops.sum(ops.cast(both > 0, "float32"))
        mean = ops.divide_no_nan(ops.sum(f1), found)
        return ops.where(ops.any(ops.isnan(both)), float("nan"), mean)
