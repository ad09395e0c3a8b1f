"""Mean average precision."""

from typing import Any

import keras
import numpy as np

from keras_quasiattn.metrics.ranking_metric import RankingMetric


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class MeanAveragePrecision(RankingMetric):
    """Mean over questions of the average precision of their ranked candidates.

        AP = Σ over positives of (positives down to its rank) / rank, divided by all positives

    `RankingMetric` describes arguments, inputs, ties and which questions count.

    >>> metric = MeanAveragePrecision(capacity=5)
    >>> metric.update_state(  # one question: 1, 2/3
    ...     [[1, 0, 0], [0, 0, 1], [1, 0, 2]], [0.3, 0.2, 0.1]
    ... )
    >>> metric.update_state([[1, 1, 3], [0, 1, 4]], [0.5, 0.5])  # another one, tied: 1/2
    >>> round(float(metric.result()), 4)
    0.6667

    Source: trec_eval (`map`).
    """

    def __init__(
        self,
        *,
        capacity: int,
        questions: str = "positive",
        ties: str = "worst",
        name: str = "mean_average_precision",
        dtype: Any = None,
    ) -> None:
        super().__init__(capacity=capacity, questions=questions, ties=ties, name=name, dtype=dtype)

    def _gain(self, rank: Any, found: Any, positives: Any) -> Any:
        return found / (rank * keras.ops.maximum(positives, 1.0))


def average_precisions(
    labels: np.ndarray, questions: np.ndarray, scores: np.ndarray, counted: str = "positive"
) -> np.ndarray:
    """Returns the average precision of every question; `MeanAveragePrecision` is their mean.

    AP = mean over the positive candidates of (positives down to it / its rank)

    Ties count against the model: of equal scores, the negative candidates come first.

    Args:
        labels: (pairs,), 1 for a right candidate and 0 for a wrong one.
        questions: (pairs,), the question of each candidate.
        scores: (pairs,).
        counted: "positive" for the questions with a right candidate, "both" for those with a right
            and a wrong one.

    Returns:
        (questions,), by the numbers of the questions.

    >>> average_precisions(np.array([0, 1, 1]), np.array([4, 4, 4]), np.array([0.2, 0.9, 0.1]))
    array([0.83333333])
    """
    found = []
    for question in np.unique(questions):
        chosen = questions == question
        label, score = labels[chosen], scores[chosen]
        positives = int(label.sum())
        if not positives or (counted == "both" and positives == len(label)):
            continue
        ranked = label[np.lexsort((label, -score))]
        precision = np.cumsum(ranked) / np.arange(1, len(ranked) + 1)
        found.append(float(precision[ranked == 1].mean()))
    return np.array(found)
