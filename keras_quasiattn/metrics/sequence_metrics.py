"""Metrics of predicted ids: accuracy of whole sequences, and perplexity."""

import math
from typing import Any

import keras
from keras import ops

from keras_quasiattn.core.arguments import check, check_shape
from keras_quasiattn.core.configured import Configured


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class SequenceAccuracy(Configured, keras.metrics.Mean):
    """Share of sequences in which every target is the most likely id, given the true previous ids.

        correct(b) = all over t with y(b,t) ≠ pad_id of  argmax_v logits(b,t,v) = y(b,t)

    This is teacher forcing. It gives the same share of exact matches as greedy decoding, because a
    greedy decoder sees the true past up to its first error. Compare decoded strings with
    `exact_match`.

    Positions with target `pad_id` or weight 0 do not count; the end of the sequence does. A
    sequence without a position that counts is left out.

    Args:
        pad_id: target id that stands for padding. Defaults to 0.
        name: name of the metric in logs. Defaults to "sequence_accuracy".
        dtype: dtype of the counts; the default, float32, counts 2^24 sequences exactly.

    Call arguments:
        y_true: integer ids (B, T).
        y_pred: logits or probabilities (B, T, V), of any float dtype.
        sample_weight: None; or (B, T), a mask of positions (zero leaves a position out, any other
            value keeps it); or (B,) or (B, 1), a weight for each sequence.

    Returns:
        `result()` is a scalar in [0, 1], and 0 before the first sequence.

    Raises:
        ValueError: a rank is wrong.

    >>> metric = SequenceAccuracy()
    >>> logits = keras.ops.one_hot([[2, 1, 0], [2, 2, 0]], 3)
    >>> metric.update_state([[2, 1, 0], [2, 1, 0]], logits)
    >>> float(metric.result())
    0.5

    Source: tensor2tensor, `utils/metrics.py` (`padded_sequence_accuracy`).
    """

    def __init__(self, pad_id: int = 0, name: str = "sequence_accuracy", dtype: Any = None) -> None:
        super().__init__(name=name, dtype=dtype)
        self.pad_id = pad_id

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Count the sequences of one batch."""
        y_true, y_pred = ops.convert_to_tensor(y_true), ops.convert_to_tensor(y_pred)
        if len(y_true.shape) != 2 or len(y_pred.shape) != 3:
            raise ValueError(
                "`y_true` must have shape (B, T) and `y_pred` (B, T, V). Received: "
                f"y_true.shape={tuple(y_true.shape)} and y_pred.shape={tuple(y_pred.shape)}"
            )
        y_true = ops.cast(y_true, "int32")
        counts = y_true != self.pad_id  # (B, T)
        weight = ops.ones_like(y_true[:, 0], dtype=self.dtype)  # (B,)
        if sample_weight is not None:
            sample_weight = ops.convert_to_tensor(sample_weight)
            if len(sample_weight.shape) == 1 or tuple(sample_weight.shape[1:]) == (1,) != tuple(
                y_true.shape[1:]
            ):
                weight = ops.cast(ops.reshape(sample_weight, (-1,)), self.dtype)
            else:
                expected, shape = "shape (B, T), (B,) or (B, 1)", sample_weight.shape
                check_shape(len(shape) == 2, shape, "sample_weight", expected)
                counts = ops.logical_and(counts, ops.cast(sample_weight, "bool"))
        # Not `ops.argmax`: on TensorFlow it first rewrites negative zeros, which takes six more
        # tensors of the logits' size.
        likeliest = ops.squeeze(ops.top_k(y_pred, 1)[1], -1)  # (B, T)
        right = ops.cast(likeliest, "int32") == y_true
        all_right = ops.all(ops.logical_or(right, ops.logical_not(counts)), axis=-1)  # (B,)
        super().update_state(all_right, ops.where(ops.any(counts, axis=-1), weight, 0.0))


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class SequencePerplexity(Configured, keras.metrics.Metric):
    """Perplexity of the targets, given the true previous ids.

        result = exp(−Σ log softmax(logits[b, t])[y[b, t]] / number of (b, t))
        over all (b, t) with y[b, t] ≠ pad_id

    Every token has the same weight, however the data are batched. The loss's label smoothing does
    not affect it. Ends of sequences count. Only perplexities over the same tokens are comparable.

    Args:
        pad_id: target id that stands for padding. Defaults to 0.
        name: name of the metric in logs. Defaults to "perplexity".
        dtype: dtype of the sums; float32 by default.

    Call arguments:
        y_true: integer ids (B, T).
        y_pred: logits (B, T, V), of any float dtype.
        sample_weight: None; or (B, T): positions of weight 0 do not count, others once.

    Returns:
        `result()` is a scalar, and 1 before the first token.

    Raises:
        ValueError: weights are not (B, T).

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

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Add the tokens of one batch."""
        y_true = ops.cast(y_true, "int32")
        logits = ops.cast(y_pred, "float32")
        counts = ops.not_equal(y_true, self.pad_id)
        if sample_weight is not None:
            sample_weight = ops.cast(sample_weight, "bool")
            shape = sample_weight.shape
            check_shape(len(shape) == 2, shape, "sample_weight", "shape (B, T)")
            counts = ops.logical_and(counts, sample_weight)
        of_target = ops.take_along_axis(logits, ops.expand_dims(y_true, -1), axis=-1)
        losses = ops.logsumexp(logits, axis=-1) - ops.squeeze(of_target, -1)  # (B, T)
        self.total.assign_add(ops.sum(ops.where(counts, losses, 0.0)))
        self.count.assign_add(ops.sum(ops.cast(counts, self.dtype)))

    def result(self) -> Any:
        """Return the perplexity of all tokens so far."""
        return ops.exp(ops.divide_no_nan(self.total, self.count))


def perplexity(negative_log_likelihood: float, tokens: int) -> float:
    """Return exp(negative_log_likelihood / tokens), or infinity where a float would overflow.

    Compare perplexities only over the same tokens: the value per subword is lower than per word.
    For the perplexity per word of a subword model, pass the sum over subwords with the number of
    words.

    Args:
        negative_log_likelihood: sum over all tokens of a set, in nats, without label smoothing.
        tokens: number of these tokens, including ends of sequences.

    Raises:
        ValueError: `tokens` is below 1.

    >>> round(perplexity(3 * math.log(10), 3), 6)
    10.0
    """
    check(tokens >= 1, tokens, "tokens", "at least 1")
    try:
        return math.exp(negative_log_likelihood / tokens)
    except OverflowError:
        return math.inf
