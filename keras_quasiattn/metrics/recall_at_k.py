"""Recall among the first k candidates."""

from typing import Any

import keras

from keras_quasiattn.metrics.ranking_metric import RankingMetric


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class RecallAtK(RankingMetric):
    """Mean over questions of the share of their positive candidates that rank among the first k.

    With n candidates per question, one of them positive, this is Recall_n@k of response selection.

    Args:
        k: number of first candidates, at least 1.

    `RankingMetric` describes the other arguments, inputs, ties and which questions count.

    >>> metric = RecallAtK(2, capacity=3)
    >>> metric.update_state([[0, 0, 0], [1, 0, 1], [1, 0, 2]], [0.3, 0.2, 0.1])
    >>> float(metric.result())
    0.5

    Source: trec_eval (`recall_k`); Lowe et al. 2015, "The Ubuntu Dialogue Corpus", §5.1.
    """

    def __init__(
        self,
        k: int,
        *,
        capacity: int,
        questions: str = "positive",
        ties: str = "worst",
        name: str | None = None,
        dtype: Any = None,
    ) -> None:
        if k < 1:
            raise ValueError(f"k must be at least 1; got {k}")
        name = name or f"recall_at_{k}"
        super().__init__(capacity=capacity, questions=questions, ties=ties, name=name, dtype=dtype)
        self.k = k

    def _gain(self, rank: Any, found: Any, positives: Any) -> Any:
        return keras.ops.where(rank <= self.k, 1.0 / keras.ops.maximum(positives, 1.0), 0.0)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor arguments."""
        return {**super().get_config(), "k": self.k}
