"""The task that ranks candidate answers or replies to a question."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import keras
import numpy as np
import tensorflow as tf

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.data import TextPairs, ranked_pairs_from_files
from keras_quasiattn.lab.tasks.baselines import bag_of_words
from keras_quasiattn.lab.tasks.batches import FILE, as_texts
from keras_quasiattn.lab.tasks.measured import Judged, Measured
from keras_quasiattn.lab.tasks.pairs import (
    PairTask,
    first_and_others,
    one_by_one,
    pair_source,
    split_input,
)
from keras_quasiattn.lab.tasks.task import ServingSignature, Source, own_source
from keras_quasiattn.metrics import (
    MeanAveragePrecision,
    MeanReciprocalRank,
    RecallAtK,
    average_precisions,
)
from keras_quasiattn.metrics.ranking import QUESTIONS
from keras_quasiattn.models import RankingCrossentropy

_NAMES = ("question", "candidate")
_RECALL_AT = (1, 2, 5)
_ANSWERS = (
    "how are glacier caves formed ?\tA glacier cave is a cave within the ice .\t"
    "Ice is frozen water ."
)
_REPLIES = "how do i unpack a rar file?\tinstall unrar with apt-get\twhat do you mean by root"


def _corpus(config: str, example: str = _ANSWERS) -> Source:
    return pair_source(example, keys=("first", "second", "label", "question_id"), config=config)


def _counted(pairs: TextPairs, questions: str) -> list[int]:
    """Return the numbers of the questions that count in the metrics."""
    wanted = (1,) if questions == "positive" else (1, 0)
    found = [set(np.asarray(pairs.groups)[pairs.labels == label].tolist()) for label in wanted]
    return sorted(set.intersection(*found))


def _check_counts(pairs: TextPairs, place: str, questions: str) -> None:
    """Raise a `UserError` if no question of `place` counts in the metrics, which would be 0."""
    if not _counted(pairs, questions):
        labels = "label 1" if questions == "positive" else "label 1 and one with the label 0"
        raise UserError(
            f"{place} has no question that counts: none has a candidate with the {labels}"
        )


class Rank(PairTask):
    """Ranking by pointwise classification: a candidate's score is its probability of being right.

    Validation and `evaluate` measure whole questions, even if batches split them. With
    `data.questions` "both", only questions with both right and wrong candidates count; with
    "positive", questions with at least one right candidate.

    Source: Tay et al. 2019, §3.2; Lowe et al. 2015 for replies.
    """

    name: ClassVar[str] = "rank"
    figure: ClassVar[str] = "map"
    has_classes: ClassVar[bool] = True
    weighted_metrics: ClassVar[bool] = False  # `row` marks the pairs that do not count
    # A training batch has only some of a question's candidates.
    measures_training: ClassVar[bool] = False
    sources: ClassVar[Mapping[str, Source]] = {
        "wikiqa": _corpus("wikiqa"),
        "wikiqa_original": _corpus("wikiqa_original"),
        "trecqa": _corpus("trecqa_all"),
        "trecqa_train": _corpus("trecqa"),
        "ubuntu_irc": _corpus("ubuntu_irc", _REPLIES),
        "ubuntu": _corpus("ubuntu_v2", _REPLIES),
        "own": own_source(_ANSWERS, ranked_pairs_from_files),
    }

    def _load(self) -> tuple[Any, str]:
        questions = self.options.data["questions"]
        UserError.check("data.questions", questions, QUESTIONS)
        data, note = super()._load()
        for split, pairs in data.splits.items():
            _check_counts(pairs, self.options.data.get(split) or f"the split {split}", questions)
        return data, note

    def _read_file(self, file: str, columns: Mapping[str, str] | None) -> TextPairs:
        pairs = ranked_pairs_from_files({FILE: file}, columns).splits[FILE]
        _check_counts(pairs, file, self.options.data["questions"])
        return pairs

    def _chosen(self, split: str, limit: int | None) -> Any:
        """Return a split, or all candidates of its first `limit` questions that count."""
        if limit is None or limit < 1:
            return super()._chosen(split, limit)
        whole = super()._chosen(split, None)
        first = _counted(whole, self.options.data["questions"])[:limit]
        return whole.where(np.isin(whole.groups, first))

    def _targets(self, texts: Any) -> dict[str, np.ndarray]:
        return {"label": texts.labels, "group": texts.groups}

    def _target(self, examples: Mapping[str, tf.Tensor]) -> tf.Tensor:
        return tf.stack(  # (B, 3)
            [tf.cast(examples[name], tf.int32) for name in ("label", "group", "row")], axis=1
        )

    def loss(self) -> keras.losses.Loss:
        """Return the cross-entropy of right or wrong, weighted by `training.class_weights`."""
        loss = RankingCrossentropy(label_smoothing=self.options.training.label_smoothing)
        return self._weighted(loss, lambda target: tf.cast(target[:, 0], tf.int32))

    def metrics(self) -> list[keras.metrics.Metric]:
        """Return MAP, MRR and recall at 1 of the validation questions."""
        return self._ranking_metrics(len(self._data.splits["validation"]), (1,))

    def _ranking_metrics(
        self, capacity: int, recall_at: Sequence[int]
    ) -> list[keras.metrics.Metric]:
        common: dict[str, Any] = {"capacity": capacity, "questions": self.options.data["questions"]}
        return [
            MeanAveragePrecision(**common, name="map"),
            MeanReciprocalRank(**common, name="mrr"),
            *(RecallAtK(k, **common, name=f"recall_at_{k}") for k in recall_at),
        ]

    def _measure(self, model: keras.Model, chosen: Any) -> Measured:
        """Return MAP, MRR and recall at 1, 2 and 5 over questions; ties count against the model."""
        logits = self._outputs(model, chosen)
        ranked = self._ranked(chosen, logits)
        counts = {"questions": ranked.examples, "pairs": len(chosen)}
        judged = self._judged(chosen, logits)
        return Measured({**ranked.figures, **counts}, ranked.items, judged)

    def measure_baselines(
        self, split: str = "test", limit: int | None = None
    ) -> dict[str, Measured]:
        """Return the same metrics for a bag-of-words regression."""
        chosen = self._chosen(split, limit)
        probabilities = bag_of_words(self._data.splits["train"], chosen, 2)
        logits = np.log(probabilities + np.finfo(np.float32).tiny)
        return {"bag_of_words": self._ranked(chosen, logits)}

    def _ranked(self, chosen: Any, logits: np.ndarray) -> Measured:
        """Return the ranking metrics of logits (pairs, 2), and each question's precision."""
        # (pairs, 3)
        targets = np.stack([chosen.labels, chosen.groups, np.arange(len(chosen))], axis=1)
        figures = {}
        for metric in self._ranking_metrics(len(chosen), _RECALL_AT):
            metric.update_state(targets, logits)
            figures[metric.name] = float(metric.result())
        scores = logits[:, 1] - logits[:, 0]
        questions = self.options.data["questions"]
        precisions = average_precisions(chosen.labels, chosen.groups, scores, questions)
        return Measured(figures, precisions)

    def _judged(self, chosen: Any, logits: np.ndarray) -> list[Judged]:
        """Judge the best candidate, by logits (pairs, 2), of each question that counts."""
        margins, scores = logits[:, 1] - logits[:, 0], tf.nn.softmax(logits)[:, 1].numpy()
        found = []
        for question in np.unique(chosen.groups):
            rows = np.flatnonzero(chosen.groups == question)
            # As in the metrics, ties rank wrong candidates first.
            rows = rows[np.lexsort((chosen.labels[rows], -margins[rows]))]
            right = chosen.labels[rows] == 1
            if not right.any() or (self.options.data["questions"] == "both" and right.all()):
                continue
            asked, candidates = as_texts(chosen.first[rows[:1]]), as_texts(chosen.second[rows])
            wanted = " / ".join(np.array(candidates, object)[right])
            text = "\t".join([*asked, *candidates])
            sure = float(scores[rows[0]])
            found.append(Judged(text, wanted, candidates[0], bool(right[0]), sure))
        return found

    def predict(self, model: keras.Model, inputs: Sequence[str]) -> list[dict[str, Any]]:
        """Return for each question its candidates, best first, with scores and input positions."""
        return one_by_one(self._answer_function(self._order_function(model)), inputs, _NAMES)

    def check_input(self, text: str | bytes) -> None:
        """Reject anything but a question and at least one candidate, separated by tabs."""
        split_input(text, _NAMES, more=True)

    def serving_signature(self, model: keras.Model) -> ServingSignature:
        """Take `question` and `candidates`; return `ranked`, their `scores` and their `places`.

        `question` is (B,), the others are (B, C); `places` are the positions in `candidates`.
        Candidates that are empty or have no ids score 0 and come last; a server that pads a batch
        instead appends copies of a text, whose `places` are at or above the number of candidates
        sent.
        """
        order = self._order_function(model)
        pad_id = self.tokenizer.pad_id
        return ServingSignature(
            function=self._answer_function(order),
            input_signature=_SIGNATURE,
            resources=self.tokenizer.resources,
            tokenize=self._token_ids,
            answer_ids=lambda question, candidates: order(
                question, candidates, tf.reduce_all(candidates == pad_id, axis=-1)
            ),
            columns=lambda text: first_and_others(text, _NAMES),
            longest=self._most_ids,
            **self._joined(),
        )

    def _order_function(self, model: keras.Model) -> Any:
        """Return scores and places (B, C), best first, for ids (B, S) and (B, C, T)."""

        @tf.function(input_signature=_ORDER_SIGNATURE)
        def order(
            question: tf.Tensor, candidates: tf.Tensor, missing: tf.Tensor
        ) -> dict[str, tf.Tensor]:
            candidates = self._readable_ids(candidates)
            shape = tf.shape(candidates)
            first = tf.repeat(self._readable_ids(question), shape[1], axis=0)  # (B·C, S)
            second = tf.reshape(candidates, (shape[0] * shape[1], shape[2]))  # (B·C, T)
            logits = model(self._argument(first, second), training=False)  # (B·C, 2)
            scores = tf.where(missing, 0.0, tf.reshape(tf.nn.softmax(logits)[:, 1], shape[:2]))
            # As in the metrics: many candidates of a sure model have the same probability, 1.
            margins = tf.reshape(logits[:, 1] - logits[:, 0], shape[:2])
            # Missing candidates rank after all real ones.
            places = tf.argsort(tf.where(missing, np.inf, -margins), axis=1, stable=True)
            return {"scores": tf.gather(scores, places, batch_dims=1), "places": places}

        return order

    def _answer_function(self, order: Any) -> Any:
        @tf.function(input_signature=_SIGNATURE)
        def answer(question: tf.Tensor, candidates: tf.Tensor) -> dict[str, tf.Tensor]:
            ids = self._ids(tf.reshape(candidates, (-1,)))  # (B·C, T)
            # (B, C, T)
            ids = tf.reshape(ids, tf.concat([tf.shape(candidates), tf.shape(ids)[1:]], axis=0))
            ordered = order(self._ids(question), ids, candidates == "")
            return {"ranked": tf.gather(candidates, ordered["places"], batch_dims=1), **ordered}

        return answer


_ORDER_SIGNATURE = [
    tf.TensorSpec((None, None), tf.int32, name="question"),
    tf.TensorSpec((None, None, None), tf.int32, name="candidates"),
    tf.TensorSpec((None, None), tf.bool, name="missing"),
]
_SIGNATURE = [
    tf.TensorSpec((None,), tf.string, name="question"),
    tf.TensorSpec((None, None), tf.string, name="candidates"),
]
