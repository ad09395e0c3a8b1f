"""Cross-entropy over token ids, with label smoothing."""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

Tensor = Any


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class SequenceCrossentropy(keras.losses.Loss):
    """Cross-entropy of the next token, with the target smoothed over the vocabulary.

    loss[b, t] = −(1 − s)·log p[b, t, y] − s·mean_v log p[b, t, v]
    p = softmax(logits),  s = label_smoothing

    Keras' sparse cross-entropy has no label smoothing, and its smoothed one needs one-hot targets
    of vocabulary size. The model's mask or sample weights leave padding out, as in any Keras loss.

    Args:
        label_smoothing: share s of the target spread evenly over the vocabulary, in [0, 1).
        name: name of the loss.
        **kwargs: `reduction` and `dtype`.

    Call arguments:
        y_true: integer ids (B, T).
        y_pred: logits (B, T, V).

    Returns:
        A scalar under the default reduction; (B, T) without reduction.

    Raises:
        ValueError: if `label_smoothing` is out of range.

    >>> loss = SequenceCrossentropy(label_smoothing=0.1)
    >>> round(float(loss([[1]], [[[0.0, 0.0]]])), 4)
    0.6931

    Source: Szegedy et al. 2016, section 7; Tensor2Tensor's `label_smoothing`.
    """

    def __init__(
        self, label_smoothing: float = 0.0, name: str = "sequence_crossentropy", **kwargs: Any
    ) -> None:
        super().__init__(name=name, **kwargs)
        if not 0 <= label_smoothing < 1:
            raise ValueError(
                f"`label_smoothing` must be in [0, 1). Received: label_smoothing={label_smoothing}"
            )
        self.label_smoothing = label_smoothing

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        """Returns the loss of every position, (B, T)."""
        ids = ops.expand_dims(ops.cast(y_true, "int32"), -1)
        return _smoothed_crossentropy(ids, ops.convert_to_tensor(y_pred), self.label_smoothing)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor arguments."""
        return {**super().get_config(), "label_smoothing": self.label_smoothing}


def _smoothed_crossentropy(ids: Tensor, logits: Tensor, smoothing: float) -> Tensor:
    """Returns the loss (B, T) from ids (B, T, 1) and logits (B, T, V).

    The gradient, (p − smoothed target)·upstream, is written out by hand for two reasons. In
    TensorFlow the gradient of a gather is a sum over B·T·V segments, one by one, and the gradient
    of a log-softmax keeps one more tensor of the logits' size.
    """
    vocabulary = logits.shape[-1]

    @ops.custom_gradient
    def losses(logits: Tensor) -> tuple[Tensor, Callable[..., Tensor]]:
        of_all = ops.logsumexp(logits, axis=-1)  # (B, T)
        of_target = ops.squeeze(ops.take_along_axis(logits, ids, axis=-1), -1)  # (B, T)

        def gradient(*upstreams: Tensor, upstream: Tensor | None = None) -> Tensor:
            upstream = upstreams[0] if upstream is None else upstream
            shares = [
                ops.cast(smoothing / vocabulary + more, logits.dtype) for more in (1 - smoothing, 0)
            ]
            # (V,) against (B, T, 1) gives the smoothed one-hot targets (B, T, V).
            target = ops.where(ops.equal(ops.arange(vocabulary, dtype="int32"), ids), *shares)
            probabilities = ops.exp(logits - ops.expand_dims(of_all, -1))
            return (probabilities - target) * ops.expand_dims(upstream, -1)

        smoothed = (1 - smoothing) * of_target + smoothing * ops.mean(logits, axis=-1)
        return of_all - smoothed, gradient

    return losses(logits)
