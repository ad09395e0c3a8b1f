"""The loss of readers."""

from typing import Any

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class SpanCrossentropy(keras.losses.Loss):
    """Cross-entropy of a span's start plus that of its end.

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
    >>> import numpy as np
    >>> loss = SpanCrossentropy()(np.array([[0, 1, 1]]), np.zeros((1, 4, 2), "float32"))
    >>> round(float(loss), 3)
    2.773
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"name": "span_crossentropy", **kwargs})

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Returns the cross-entropy of each example."""
        target = ops.cast(y_true, "int32")
        return sum(
            keras.losses.sparse_categorical_crossentropy(
                target[:, side], y_pred[..., side], from_logits=True
            )
            for side in (0, 1)
        )
