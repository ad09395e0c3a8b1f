"""A loss that weights rows of rare classes more than rows of frequent ones."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops


def balanced_weights(counts: np.ndarray) -> np.ndarray:
    """Return weights N/(classes·count) for the classes, which give all of them equal totals.

    The mean over the N rows is 1. A class without rows has weight 0 and is not counted.

    >>> balanced_weights(np.array([1, 3, 0])).tolist()
    [2.0, 0.6666666865348816, 0.0]
    """
    found = np.count_nonzero(counts)
    weights = counts.sum() / (found * np.maximum(counts, 1)) * (counts > 0)
    return weights.astype(np.float32)


class ClassWeighted(keras.losses.Loss):
    """Weight each example of another loss by its class.

    The weights (classes,) multiply the loss of an example as a whole, so label smoothing spreads
    the target first. They are constants, not normalized per batch or replica. `labels_of` returns
    the class numbers (B,) of a batch of targets.
    """

    def __init__(
        self, loss: keras.losses.Loss, weights: np.ndarray, labels_of: Callable[[Any], Any]
    ) -> None:
        super().__init__(name=loss.name, reduction=loss.reduction, dtype=loss.dtype)
        self.loss, self.weights, self.labels_of = loss, weights, labels_of

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Return the weighted loss of each example, (B,)."""
        losses = self.loss.call(y_true, y_pred)
        weights = ops.convert_to_tensor(self.weights, dtype=losses.dtype)
        return losses * ops.take(weights, self.labels_of(y_true), axis=0)
