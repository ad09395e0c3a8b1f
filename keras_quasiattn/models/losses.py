"""Losses of the models: cross-entropies for sequences, spans and ranked candidates."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_quasiattn.core.arguments import check_rate
from keras_quasiattn.core.backend import with_gradient
from keras_quasiattn.core.configured import Configured

Tensor = Any


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class SequenceCrossentropy(Configured, keras.losses.Loss):
    """Cross-entropy of the next token, with the target smoothed over the vocabulary.

    loss[b, t] = −(1 − s)·log p[b, t, y] − s·mean_v log p[b, t, v]
    p = softmax(logits),  s = label_smoothing

    Keras' sparse cross-entropy has no label smoothing, and its categorical one needs one-hot
    targets. As in any Keras loss, the model's mask or sample weights leave padding out.

    Args:
        label_smoothing: share s in [0, 1) of the target spread over the vocabulary. Defaults to 0.
        name: name of the loss. Defaults to "sequence_crossentropy".
        **kwargs: `reduction` and `dtype`.

    Call arguments:
        y_true: integer ids (B, T).
        y_pred: logits (B, T, V).

    Returns:
        A scalar under the default reduction; (B, T) without reduction.

    Raises:
        ValueError: if `label_smoothing` is out of range.

    Example:
    >>> loss = SequenceCrossentropy(label_smoothing=0.1)
    >>> round(float(loss([[1]], [[[0.0, 0.0]]])), 4)
    0.6931

    Source: Szegedy et al. 2016, section 7; Tensor2Tensor's `label_smoothing`.
    """

    def __init__(
        self, label_smoothing: float = 0.0, name: str = "sequence_crossentropy", **kwargs: Any
    ) -> None:
        super().__init__(name=name, **kwargs)
        self.label_smoothing = check_rate(label_smoothing, "label_smoothing")

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        """Return the loss of every position, (B, T)."""
        ids = ops.expand_dims(ops.cast(y_true, "int32"), -1)
        return _smoothed_crossentropy(ids, ops.convert_to_tensor(y_pred), self.label_smoothing)


def _smoothed_crossentropy(ids: Tensor, logits: Tensor, smoothing: float) -> Tensor:
    """Return the loss (B, T) from ids (B, T, 1) and logits (B, T, V).

    The gradient, (p − smoothed target)·upstream, is written out by hand for two reasons. In
    TensorFlow the gradient of a gather is a sum over B·T·V segments, one by one, and the gradient
    of a log-softmax keeps one more tensor of the logits' size.
    """
    vocabulary = logits.shape[-1]

    def losses(logits: Tensor, ids: Tensor) -> tuple[Tensor]:
        of_target = ops.squeeze(ops.take_along_axis(logits, ids, axis=-1), -1)  # (B, T)
        smoothed = of_target
        if smoothing:  # otherwise a logit of −∞, which forbids an id, would make the loss NaN
            mean = ops.sum(logits, axis=-1) / vocabulary
            smoothed = (1 - smoothing) * of_target + smoothing * mean
        return (ops.logsumexp(logits, axis=-1) - smoothed,)

    def gradient(tensors: Sequence[Tensor], upstreams: Sequence[Tensor]) -> tuple[Tensor]:
        (logits, ids), (upstream,) = tensors, upstreams
        share = smoothing / vocabulary
        shares = [ops.cast(share + more, logits.dtype) for more in (1 - smoothing, 0)]
        # (V,) against (B, T, 1) gives the smoothed one-hot targets (B, T, V).
        target = ops.where(ops.equal(ops.arange(vocabulary, dtype="int32"), ids), *shares)
        probabilities = ops.exp(logits - ops.expand_dims(ops.logsumexp(logits, axis=-1), -1))
        return ((probabilities - target) * ops.expand_dims(upstream, -1),)

    return with_gradient(losses, gradient)(logits, ids)[0]


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class SpanCrossentropy(Configured, keras.losses.Loss):
    """Cross-entropy of a span's start plus cross-entropy of its end.

    loss = −log softmax(start)[first] − log softmax(end)[last]

    Args:
        **kwargs: `name`, `reduction` and `dtype`.

    Call arguments:
        y_true: integers (B, 3): the span's first and last token, and whether metrics count the
            example; the loss ignores the third.
        y_pred: logits (B, P, 2).

    Returns:
        The loss, a scalar under the default reduction.

    Example:
    >>> loss = SpanCrossentropy()(np.array([[0, 1, 1]]), np.zeros((1, 4, 2), "float32"))
    >>> round(float(loss), 3)
    2.773
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"name": "span_crossentropy", **kwargs})

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        """Return the cross-entropy of each example."""
        target = ops.cast(y_true, "int32")
        loss = keras.losses.sparse_categorical_crossentropy
        start = loss(target[:, 0], y_pred[..., 0], from_logits=True)
        return start + loss(target[:, 1], y_pred[..., 1], from_logits=True)


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class RankingCrossentropy(Configured, keras.losses.Loss):
    """Cross-entropy of positive versus negative, for the targets of the ranking metrics.

    loss = −log softmax(logits)[label]

    Args:
        label_smoothing: share of the target's probability that is spread over both classes, in [0,
            1). Defaults to 0.
        **kwargs: `name`, `reduction` and `dtype`.

    Call arguments:
        y_true: integers (B, 3): label (0 or 1), question, number; the loss uses only the label.
        y_pred: logits (B, 2).

    Returns:
        The loss, a scalar under the default reduction.

    Raises:
        ValueError: if `label_smoothing` is out of range.

    Example:
    >>> loss = RankingCrossentropy()(np.array([[1, 7, -1]]), np.zeros((1, 2), "float32"))
    >>> round(float(loss), 3)
    0.693
    """

    def __init__(self, label_smoothing: float = 0.0, **kwargs: Any) -> None:
        super().__init__(**{"name": "ranking_crossentropy", **kwargs})
        self.label_smoothing = check_rate(label_smoothing, "label_smoothing")

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        """Return the cross-entropy of each example."""
        labels = ops.one_hot(ops.cast(y_true[:, 0], "int32"), 2, dtype=y_pred.dtype)
        return keras.losses.categorical_crossentropy(
            labels, y_pred, from_logits=True, label_smoothing=self.label_smoothing
        )
