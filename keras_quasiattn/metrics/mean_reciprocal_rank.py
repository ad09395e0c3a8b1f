"""Mean reciprocal rank."""

from typing import Any

import keras

from keras_quasiattn.metrics.ranking_metric import RankingMetric


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class MeanReciprocalRank(RankingMetric):
    """Mean over questions of 1 / rank of the first positive candidate.

    `RankingMetric` describes arguments, inputs, ties and which questions count.

    >>> metric = MeanReciprocalRank(capacity=3)
    >>> metric.update_state([[0, 0, 0], [1, 0, 1], [1, 0, 2]], [0.3, 0.2, 0.1])
    >>> float(metric.result())
    0.5

    Source: trec_eval (`recip_rank`).
    """

    def __init__(
        self,
        *,
        capacity: int,
        questions: str = "positive",
        ties: str = "worst",
        name: str = "mean_reciprocal_rank",
        dtype: Any = None,
    ) -> None:
        super().__init__(capacity=capacity, questions=questions, ties=ties, name=name, dtype=dtype)

    def _gain(self, rank: Any, found: Any, positives: Any) -> Any:
        return keras.ops.where(found == 1.0, 1.0 / rank, 0.0)
