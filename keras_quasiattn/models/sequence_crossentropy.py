"""Cross-entropy over token ids, with label smoothing."""

from typing import Any

import keras
from keras import ops

Tensor = Any


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class SequenceCrossentropy(keras.losses.Loss):
    """Cross-entropy of the next token, its target smoothed over the vocabulary.

    loss[b, t] = −(1 − s)·log p[b, t, y] − s·mean_v log p[b, t, v],  p = softmax(logits),  s = label_smoothing

    Keras' sparse cross-entropy has no smoothing, and its smooth one wants one-hot targets of the vocabulary's
    size. Padding is left out by the model's mask or by sample weights, as in any Keras loss.

    Args:
        label_smoothing: share s of the target spread evenly over the vocabulary, in [0, 1).
        name: name of the loss.
        **kwargs: `reduction` and `dtype`.

    Call arguments:
        y_true: integer ids (B, T).
        y_pred: logits (B, T, V).

    Returns:
        A scalar under the default reduction, else (B, T).

    Raises:
        ValueError: `label_smoothing` is out of range.

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
        """The loss of every position, (B, T)."""
        log_probabilities = ops.log_softmax(y_pred, axis=-1)
        ids = ops.expand_dims(ops.cast(y_true, "int32"), -1)
        of_target = ops.squeeze(ops.take_along_axis(log_probabilities, ids, axis=-1), -1)
        of_all = ops.mean(log_probabilities, axis=-1)
        return -(1 - self.label_smoothing) * of_target - self.label_smoothing * of_all

    def get_config(self) -> dict[str, Any]:
        """Every constructor argument."""
        return {**super().get_config(), "label_smoothing": self.label_smoothing}
