"""Metrics of ranked candidates, as trec_eval computes them."""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_quasiattn.core.arguments import check, check_shape
from keras_quasiattn.core.configured import Configured
from keras_quasiattn.core.tensors import check_choice

QUESTIONS = ("positive", "both")
_TIES = ("worst", "best")
_LARGEST = 2**31 - 1  # JAX has no 64-bit integers by default


class RankingMetric(Configured, keras.metrics.Metric):
    """Mean over questions of a score of their ranked candidates, as trec_eval computes it.

    A question's candidates may arrive in any batch, in any order, on any replica of
    `tf.distribute`: the metric stores every example by its number until `result` is called, so the
    mean is exact. Subclasses define what each positive candidate adds to its question's score.

    `ties` orders candidates with equal scores, not their order in the data, nor the document name
    as in trec_eval. A NaN score ranks below all other scores; among NaN scores, negatives always
    rank before positives.

    Args:
        capacity: number of examples in the largest data set to be measured.
        questions: which questions count: "positive", those with a positive candidate (the
            standard), or "both", those that also have a negative one. Defaults to "positive".
        ties: "worst" ranks negatives before positives of equal score, "best" after them. Defaults
            to "worst".
        name: name of the metric in logs. Defaults to `default_name`.
        dtype: dtype of the result.

    Call arguments:
        y_true: integers (B, 3): label (1 positive, 0 negative), question, and the number of the
            example in its data set, from 0 to capacity - 1. Questions are any 32-bit integers. Each
            number must occur once. An example with a negative number is ignored; use this for
            training batches and to fill the last batch.
        y_pred: a score (B,) or (B, 1); or logits of two classes (B, 2), scored logit 1 - logit 0.

    Returns:
        `result()` is a scalar in [0, 1]. It is 0 if no question counts. It is NaN after an example
        beyond the capacity or one that two replicas received.

    Raises:
        ValueError: an argument is out of range, a shape is wrong, or examples have weights.

    Source: trec_eval (`map`, `recip_rank`, `recall_k`), which averages over questions with a
    positive.
    """

    default_name: str | None = None

    def __init__(
        self,
        *,
        capacity: int,
        questions: str = "positive",
        ties: str = "worst",
        name: str | None = None,
        dtype: Any = None,
    ) -> None:
        check(capacity >= 1, capacity, "capacity", "at least 1")
        check_choice(questions, QUESTIONS, "questions")
        check_choice(ties, _TIES, "ties")
        super().__init__(name=name or self.default_name, dtype=dtype)
        self.capacity, self.questions, self.ties = capacity, questions, ties
        # Two extra slots: the first takes ignored examples, the second those beyond the capacity.
        self.scores = self.add_variable((capacity + 2,), "zeros", dtype="float32", name="scores")
        # Per slot: label, question, and how many replicas have received the example.
        shape = (capacity + 2, 3)
        self.examples = self.add_variable(shape, "zeros", dtype="int32", name="examples")

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Store the scores of one batch."""
        if sample_weight is not None:
            raise ValueError("`sample_weight` must be None: rankings have no weights")
        y_true, y_pred = ops.convert_to_tensor(y_true), ops.convert_to_tensor(y_pred)
        fits = len(y_true.shape) == 2 and y_true.shape[1] == 3
        check_shape(fits, y_true.shape, "y_true", "shape (B, 3) (label, question, number)")
        rank = len(y_pred.shape)
        fits = rank == 1 or (rank == 2 and y_pred.shape[1] in (1, 2))
        check_shape(fits, y_pred.shape, "y_pred", "shape (B,), (B, 1) or (B, 2)")
        y_true, score = ops.cast(y_true, "int32"), ops.cast(y_pred, "float32")
        if len(score.shape) == 2:
            score = score[:, 0] if score.shape[1] == 1 else score[:, 1] - score[:, 0]
        label, question, number = y_true[:, 0], y_true[:, 1], y_true[:, 2]
        slot = ops.where(number < self.capacity, number, self.capacity + 1)
        slot = ops.where(number < 0, self.capacity, slot)[:, None]
        # (B, 3), stored at the slots (B, 1).
        example = ops.stack([ops.cast(label > 0, "int32"), question, ops.ones_like(label)], axis=1)
        self.scores.assign(ops.scatter_update(self.scores.value, slot, score))
        self.examples.assign(ops.scatter_update(self.examples.value, slot, example))

    def result(self) -> Any:
        """Return the mean over the questions received so far."""
        scores, examples = ops.convert_to_tensor(self.scores), ops.convert_to_tensor(self.examples)
        seen = examples[: self.capacity, 2]
        # Training stores no examples, so skip the sort after each update.
        mean = ops.cond(
            ops.any(seen > 0),
            lambda: self._mean(scores[: self.capacity], examples[: self.capacity]),
            lambda: ops.zeros((), "float32"),
        )
        sound = ops.logical_and(examples[self.capacity + 1, 2] == 0, ops.all(seen <= 1))
        return ops.cast(ops.where(sound, mean, float("nan")), self.dtype)

    def _mean(self, scores: Any, examples: Any) -> Any:
        # All tensors here are (capacity,): per slot, per question, or in ranked order.
        label, seen = examples[:, 0], examples[:, 2]
        _, question = _sort(examples[:, 1])  # question ids become 0, 1, 2, …
        order = self._order(question, _score_ranks(scores, label, seen, self.ties))
        positives, candidates, negatives = (
            ops.segment_sum(count, question, num_segments=self.capacity)
            for count in (label, ops.ones_like(label), seen - label)
        )
        counts = positives > 0
        if self.questions == "both":
            counts = ops.logical_and(counts, negatives > 0)
        label, question = ops.take(label, order), ops.take(question, order)
        # Empty slots rank last in their question, so they shift no other candidate.
        rank = ops.arange(1, self.capacity + 1, dtype="int32") - _before(candidates, question)
        found = ops.cumsum(label) - _before(positives, question)
        counted = (rank, found, ops.take(positives, question))
        gain = self._gain(*(ops.cast(n, "float32") for n in counted))
        added = ops.logical_and(label > 0, ops.take(counts, question))
        total = ops.sum(ops.where(added, gain, 0.0))
        return ops.divide_no_nan(total, ops.sum(ops.cast(counts, "float32")))

    def _gain(self, rank: Any, found: Any, positives: Any) -> Any:
        """Return what each positive candidate adds to its question's score, (capacity,).

        `rank` counts from 1 in the question, `found` are its positives down to this rank, and
        `positives` all of them. Entries of other candidates are ignored.
        """
        raise NotImplementedError

    def _order(self, question: Any, score_rank: Any) -> Any:
        """Return the indices that sort by question, then by falling score.

        No step needs a stable sort. If they fit 32 bits, question and score form one key, question
        · base + score. Otherwise the score is split into digits, the highest first.
        """
        base = _LARGEST // self.capacity
        digits = 1
        while base**digits < _score_rank_limit(self.capacity):
            digits += 1
        order, rank = None, question
        for digit in reversed(range(digits)):
            order, rank = _sort(rank * base + score_rank // base**digit % base)
        return order


def _score_rank_limit(capacity: int) -> int:
    return 2 * capacity + 3


def _score_ranks(scores: Any, label: Any, seen: Any, ties: str) -> Any:
    """Return the rank of each score, 0 for the highest, limit − 1 for an empty slot."""
    last = _score_rank_limit(scores.shape[0]) - 1
    unknown = ops.isnan(scores)
    _, rank = _sort(-ops.where(unknown, 0.0, scores))
    rank = 2 * rank + (label if ties == "worst" else 1 - label)
    rank = ops.where(unknown, last - 2 + label, rank)
    return ops.where(seen > 0, rank, last)


def _sort(keys: Any) -> tuple[Any, Any]:
    """Return the indices that sort the keys, and each key's rank among the distinct keys."""
    order = ops.argsort(keys)
    ordered = ops.take(keys, order)
    is_new = ops.cast(ordered[1:] != ordered[:-1], "int32")
    ranks = ops.cumsum(ops.concatenate([ops.zeros((1,), "int32"), is_new]))
    order = ops.cast(order, "int32")
    return order, ops.scatter_update(ops.zeros_like(ranks), order[:, None], ranks)


def _before(sizes: Any, segment: Any) -> Any:
    """Return, for each given segment, the sum of the sizes of all segments before it."""
    return ops.take(ops.cumsum(sizes) - sizes, segment)


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class MeanAveragePrecision(RankingMetric):
    """Mean over questions of the average precision of their ranked candidates.

        AP = Σ over positives of (positives down to its rank) / rank, divided by all positives

    `RankingMetric` describes the arguments, inputs, ties and which questions count.

    >>> metric = MeanAveragePrecision(capacity=5)
    >>> metric.update_state(  # one question: 1, 2/3
    ...     [[1, 0, 0], [0, 0, 1], [1, 0, 2]], [0.3, 0.2, 0.1]
    ... )
    >>> metric.update_state([[1, 1, 3], [0, 1, 4]], [0.5, 0.5])  # another one, tied: 1/2
    >>> round(float(metric.result()), 4)
    0.6667

    Source: trec_eval (`map`).
    """

    default_name = "mean_average_precision"

    def _gain(self, rank: Any, found: Any, positives: Any) -> Any:
        return found / (rank * ops.maximum(positives, 1.0))


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class MeanReciprocalRank(RankingMetric):
    """Mean over questions of 1 / rank of the first positive candidate.

    `RankingMetric` describes the arguments, inputs, ties and which questions count.

    >>> metric = MeanReciprocalRank(capacity=3)
    >>> metric.update_state([[0, 0, 0], [1, 0, 1], [1, 0, 2]], [0.3, 0.2, 0.1])
    >>> float(metric.result())
    0.5

    Source: trec_eval (`recip_rank`).
    """

    default_name = "mean_reciprocal_rank"

    def _gain(self, rank: Any, found: Any, positives: Any) -> Any:
        return ops.where(found == 1.0, 1.0 / rank, 0.0)


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
        check(k >= 1, k, "k", "at least 1")
        name = name or f"recall_at_{k}"
        super().__init__(capacity=capacity, questions=questions, ties=ties, name=name, dtype=dtype)
        self.k = k

    def _gain(self, rank: Any, found: Any, positives: Any) -> Any:
        return ops.where(rank <= self.k, 1.0 / ops.maximum(positives, 1.0), 0.0)


def average_precisions(
    labels: np.ndarray, questions: np.ndarray, scores: np.ndarray, counted: str = "positive"
) -> np.ndarray:
    """Return the average precision of every question; `MeanAveragePrecision` is their mean.

    AP = mean over the positive candidates of (positives down to its rank) / rank

    Ties count against the model: of equal scores, the negative candidates come first.

    Args:
        labels: (pairs,), 1 for a right candidate and 0 for a wrong one.
        questions: (pairs,), the question of each candidate.
        scores: (pairs,), the higher the better.
        counted: "positive" for the questions with a right candidate, "both" for those with a right
            and a wrong one. Defaults to "positive".

    Returns:
        (questions,), in the order of the questions' numbers; only the questions that count.

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
