"""Metrics of predicted spans, in tokens, to monitor training."""

from typing import Any

import keras
from keras import ops

from keras_quasiattn.core.configured import Configured
from keras_quasiattn.models.reader import best_spans


class SpanMetric(Configured, keras.metrics.Mean):
    """Mean over examples of a score, defined by subclasses, of the best span and the right one."""

    def __init__(self, longest: int = 16, name: str | None = None, dtype: Any = None) -> None:
        super().__init__(name=name, dtype=dtype)
        self.longest = longest

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Add the spans of one batch."""
        if sample_weight is not None:
            raise ValueError("`sample_weight` must be None: spans have no weights")
        y_true, y_pred = ops.cast(y_true, "int32"), ops.convert_to_tensor(y_pred)
        first, last, _ = best_spans(y_pred[..., 0], y_pred[..., 1], self.longest)
        super().update_state(self._fit(first, last, y_true[:, 0], y_true[:, 1]), y_true[:, 2])

    def _fit(self, first: Any, last: Any, right_first: Any, right_last: Any) -> Any:
        """Return the score of each predicted span against the right one, (B,)."""
        raise NotImplementedError


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class SpanAccuracy(SpanMetric):
    """Share of examples whose predicted span equals the right one.

    Args:
        longest: maximum number of positions in a predicted span. Defaults to 16.
        name: name of the metric in logs. Defaults to that of the class.
        dtype: dtype of the result. Defaults to Keras' floats.

    Call arguments:
        y_true: integers (B, 3): the span's first and last token, and 1 if the example counts,
            otherwise 0.
        y_pred: logits (B, P, 2) of start and end.

    Returns:
        `result()` is a number in [0, 1].

    Raises:
        ValueError: `sample_weight` is given: spans have no weights.

    >>> metric = SpanAccuracy()
    >>> metric.update_state(np.array([[1, 1, 1]]), np.eye(3)[None, :, [1, 1]])
    >>> float(metric.result())
    1.0
    """

    def _fit(self, first: Any, last: Any, right_first: Any, right_last: Any) -> Any:
        return ops.logical_and(ops.equal(first, right_first), ops.equal(last, right_last))


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class SpanF1(SpanMetric):
    """Mean F1 of the tokens in the predicted span and in the right one.

    Arguments, shapes and errors are as for `SpanAccuracy`.

    >>> metric = SpanF1()
    >>> metric.update_state(np.array([[1, 2, 1]]), np.eye(3)[None, :, [1, 1]])
    >>> round(float(metric.result()), 3)
    0.667
    """

    def _fit(self, first: Any, last: Any, right_first: Any, right_last: Any) -> Any:
        common = ops.minimum(last, right_last) - ops.maximum(first, right_first) + 1
        tokens = (last - first + 1) + (right_last - right_first + 1)
        return 2.0 * ops.cast(ops.maximum(common, 0), "float32") / ops.cast(tokens, "float32")
