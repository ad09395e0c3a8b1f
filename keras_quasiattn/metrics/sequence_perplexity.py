"""Perplexity over a whole validation set."""

from typing import Any

import keras
from keras import ops

Tensor = Any


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class SequencePerplexity(keras.metrics.Metric):
    """Perplexity of the targets, given the true ids before each one.

        result = exp(−Σ log softmax(logits[b, t])[y[b, t]] / number of (b, t))
        over all (b, t) with y[b, t] ≠ pad_id

    Every token has the same weight, however the set is cut into batches. The loss's label smoothing
    does not affect it. Ends of sequences count. Perplexities are comparable only for the same
    tokens; see `metrics.perplexity`.

    Args:
        pad_id: target id that stands for padding.
        name: name of the metric in logs.
        dtype: dtype of the sums; float32 by default.

    Call arguments:
        y_true: integer ids (B, T).
        y_pred: logits (B, T, V), of any float dtype.
        sample_weight: None, or (B, T): a position of weight 0 does not count, any other counts
            once.

    Returns:
        `result()` is a scalar, and 1 before the first token.

    >>> metric = SequencePerplexity()
    >>> metric.update_state([[1, 2, 0]], keras.ops.zeros((1, 3, 5)))
    >>> round(float(metric.result()), 4)
    5.0
    """

    def __init__(self, pad_id: int = 0, name: str = "perplexity", dtype: Any = None) -> None:
        super().__init__(name=name, dtype=dtype)
        self.pad_id = pad_id
        self.total = self.add_variable(shape=(), initializer="zeros", name="total")
        self.count = self.add_variable(shape=(), initializer="zeros", name="count")

    def update_state(
        self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None = None
    ) -> None:
        """Adds the tokens of one batch."""
        y_true = ops.cast(y_true, "int32")
        logits = ops.cast(y_pred, "float32")
        counts = ops.not_equal(y_true, self.pad_id)
        if sample_weight is not None:
            counts = ops.logical_and(counts, ops.cast(sample_weight, "bool"))
        of_target = ops.squeeze(
            ops.take_along_axis(logits, ops.expand_dims(y_true, -1), axis=-1), -1
        )
        losses = ops.logsumexp(logits, axis=-1) - of_target  # (B, T)
        self.total.assign_add(ops.sum(ops.where(counts, losses, 0.0)))
        self.count.assign_add(ops.sum(ops.cast(counts, self.dtype)))

    def result(self) -> Tensor:
        """Returns the perplexity of all tokens so far."""
        return ops.exp(ops.divide_no_nan(self.total, self.count))

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor arguments."""
        return {**super().get_config(), "pad_id": self.pad_id}
