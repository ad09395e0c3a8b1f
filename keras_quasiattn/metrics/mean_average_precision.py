"""Mean average precision."""

from typing import Any

import keras

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
