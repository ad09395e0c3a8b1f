"""The loss of a pointwise ranker."""

from typing import Any

import keras
from keras import ops

from keras_quasiattn.core.arguments import check_rate


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class RankingCrossentropy(keras.losses.Loss):
    """Cross-entropy of positive against negative, for the targets of the ranking metrics.

    loss = −log softmax(logits)[label]

    Args:
        label_smoothing: share of the target's probability spread over both classes, in [0, 1).
            Defaults to 0.
        **kwargs: `name`, `reduction` and `dtype`.

    Call arguments:
        y_true: integers (B, 3): label (0 or 1), question, number; the loss uses only the label.
        y_pred: logits (B, 2).

    Returns:
        The loss, a scalar under the default reduction.

    Raises:
        ValueError: `label_smoothing` outside [0, 1).

    Example:
    >>> import numpy as np
    >>> loss = RankingCrossentropy()(np.array([[1, 7, -1]]), np.zeros((1, 2), "float32"))
    >>> round(float(loss), 3)
    0.693
    """

    def __init__(self, label_smoothing: float = 0.0, **kwargs: Any) -> None:
        super().__init__(**{"name": "ranking_crossentropy", **kwargs})
        self.label_smoothing = check_rate(label_smoothing, "label_smoothing")

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Returns the cross-entropy of each example."""
        labels = ops.one_hot(ops.cast(y_true[:, 0], "int32"), 2, dtype=y_pred.dtype)
        return keras.losses.categorical_crossentropy(
            labels, y_pred, from_logits=True, label_smoothing=self.label_smoothing
        )

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor arguments."""
        return {**super().get_config(), "label_smoothing": self.label_smoothing}
