"""Pairs of texts: the base class of their tasks, which classify them or rank candidates."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import keras
import numpy as np
import tensorflow as tf

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.data import (
    PairCorpus,
    TextPairs,
    pairs_from_click_log,
    pairs_from_files,
    pairs_from_tfds,
    ranked_pairs_from_files,
)
from keras_quasiattn.lab.data.examples import classified_from_file, warn_of_dropped
from keras_quasiattn.lab.tasks.attention_options import attention_of
from keras_quasiattn.lab.tasks.batches import FILE, as_bytes, as_texts, joined, plain
from keras_quasiattn.lab.tasks.encoder_place import ENCODER
from keras_quasiattn.lab.tasks.encoder_reading import EncoderReading
from keras_quasiattn.lab.tasks.measured import Judged, Measured, bag_of_words
from keras_quasiattn.lab.tasks.preset import SPLITS
from keras_quasiattn.lab.tasks.sources import Source, own_source
from keras_quasiattn.lab.tasks.task import ServingSignature
from keras_quasiattn.lab.tasks.vocabulary_task import ClassTask, VocabularyTask
from keras_quasiattn.metrics import (
    MeanAveragePrecision,
    MeanReciprocalRank,
    RecallAtK,
    average_precisions,
)
from keras_quasiattn.metrics.ranking import QUESTIONS
from keras_quasiattn.models import (
    MixtureClassifier,
    PairClassifier,
    RankingCrossentropy,
    SiameseClassifier,
)

NULL = "[NULL]"  # no text has this token: cleanings drop or split off brackets
_INFERENCE = "A man plays a guitar on stage.\tA man makes music."
_PARAPHRASE = "How do I learn French?\tWhat is the best way to learn French?"
_NLI = ("premise", "hypothesis", "label")
_NAMES = ("question", "candidate")
_RECALL_AT = (1, 2, 5)
_ANSWERS = (
    "how are glacier caves formed ?\tA glacier cave is a cave within the ice .\t"
    "Ice is frozen water ."
)
_REPLIES = "how do i unpack a rar file?\tinstall unrar with apt-get\twhat do you mean by root"
_ORDER_SIGNATURE = [
    tf.TensorSpec((None, None), tf.int32, name="question"),
    tf.TensorSpec((None, None, None), tf.int32, name="candidates"),
    tf.TensorSpec((None, None), tf.bool, name="missing"),
]
_SIGNATURE = [
    tf.TensorSpec((None,), tf.string, name="question"),
    tf.TensorSpec((None, None), tf.string, name="candidates"),
]


class PairTask(VocabularyTask):
    """A task on pairs of texts, `first` and `second`.

    `null_token` makes both texts start with a token that words without a counterpart can align to,
    and `unit_norm` scales word vectors to length 1. For `min_count`, a text in several pairs counts
    once.
    """

    sides: ClassVar[tuple[str, ...]] = ("first", "second")
    readings: ClassVar[Mapping[str, type]] = {ENCODER: EncoderReading}
    # As in the models with CoDA: see `pair_presets`.
    attention_defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {"coda": {"scaling": "none"}}

    def _training_texts(self) -> list[bytes]:
        # A text in several pairs counts once. Otherwise a reply that is also drawn as a wrong one
        # for other questions would have no unknown words, and unknown words would mark the right
        # replies.
        return list(dict.fromkeys(super()._training_texts()))

    def _learn(self, texts: list[bytes]) -> list[str]:
        words = super()._learn(texts)
        return [*words, NULL] if self.options.data["null_token"] else words

    def _tokens(self, texts: tf.Tensor) -> tf.RaggedTensor:
        tokens = self.tokenizer.split(texts)
        if self.options.data["null_token"]:
            null = tf.RaggedTensor.from_tensor(tf.fill([tf.shape(texts)[0], 1], NULL))  # (B, 1)
            tokens = tf.concat([null, tokens], axis=1)
        return tokens[:, : self._most_tokens]

    def _limits(self) -> dict[str, tuple[str, int]]:
        null = int(self.options.data["null_token"])
        return {side: (option, most - null) for side, (option, most) in super()._limits().items()}

    def _table(self) -> np.ndarray | None:
        table = super()._table()
        if self.options.data["unit_norm"]:
            if table is None:
                # Keras' initial vectors are so short that all dot products and weights are near 0:
                # not even equal words would align.
                shape = (self.tokenizer.vocabulary_size, self.options.model["embedding_dim"])
                table = np.random.default_rng(self.seed).normal(size=shape).astype(np.float32)
                table[0] = 0.0
            table /= np.maximum(np.linalg.norm(table, axis=1, keepdims=True), 1e-12)
        return table

    def _make_model(self, vocabulary_size: int, num_classes: int) -> keras.Model:
        options: dict[str, Any] = {**self.options.model}
        sizes: dict[str, Any] = {"vocabulary_size": vocabulary_size, "num_classes": num_classes}
        kind, _, interaction = self.model.partition("_")
        if kind == "siamese":
            return SiameseClassifier(**sizes, interaction=interaction, **options)
        if kind == "mixture":
            components: list[dict[str, Any]] = [{}] * options.pop("plain_components")
            components += [{"intra_attention": True}] * options.pop("intra_components")
            network = ("units", "num_layers", "projection_dim", "dropout", "attention_dropout")
            common = {name: options.pop(name) for name in (*network, "comparison")}
            return MixtureClassifier(**sizes, components=components, common=common, **options)
        options, attention = attention_of(options)
        return PairClassifier(**sizes, **options, **attention)

    def _split(self, text: str | bytes) -> list[str]:
        return split_input(text, self.sides, more=True)


def split_input(text: str | bytes, names: Sequence[str], *, more: bool = False) -> list[str]:
    """Split an input at its tabs into texts with these names, and perhaps more like the last.

    A single text keeps its tabs.
    """
    line = text.decode("utf-8", "surrogateescape") if isinstance(text, bytes) else text
    columns = line.split("\t") if len(names) > 1 or more else [line]
    if len(columns) < len(names) or (len(columns) > len(names) and not more):
        raise UserError(
            f"number of texts in the input {line!r}: {len(columns)}, expected {len(names)}"
            f"{' or more' if more else ''} separated by tabs: {', '.join(names)}"
        )
    return columns


def first_and_others(text: str | bytes, names: Sequence[str]) -> list[Any]:
    """Return the first text of an input, and a list of the others."""
    first, *others = split_input(text, names, more=True)
    return [first, others]


def one_by_one(answer: Any, inputs: Sequence[str], names: Sequence[str]) -> list[dict[str, Any]]:
    """Return the answers of a function of a first text (B,) and others (B, C), for each input."""
    answers = []
    for text in inputs:
        first, others = first_and_others(text, names)
        row = answer(
            tf.constant(as_bytes([first]).tolist()), tf.constant([as_bytes(others).tolist()])
        )
        found = {name: plain(value[0].numpy()) for name, value in row.items()}
        answers.append({"input": text, **found})
    return answers


def pair_source(
    example: str,
    builder: Any = PairCorpus,
    keys: Sequence[str] = ("first", "second", "label"),
    splits: Mapping[str, str] | None = None,
    **more: Any,
) -> Source:
    """Return the source of a data set of pairs.

    `keys` are the features with both texts, the label and, for ranking, the question.
    """
    names = dict(zip(("first_key", "second_key", "label_key", "question_key"), keys, strict=False))

    def read(made: Any, _: Any) -> Any:
        return pairs_from_tfds(made, splits or {split: split for split in SPLITS}, **names)

    return Source(example=example, builder=builder, read=read, **more)


class Pairs(PairTask, ClassTask):
    """Classification of pairs of texts: inference, paraphrase, clicks.

    Source: Parikh et al. 2016 and its restatement with a mixture; Mitra 2019, "Conflict as an
    Inverse of Attention in Sequence Relationship"; Tay et al. 2019, §3.3.
    """

    name: ClassVar[str] = "pairs"
    input_columns = PairTask.sides
    sources: ClassVar[Mapping[str, Source]] = {
        "snli": pair_source(_INFERENCE, "snli", _NLI),
        "snli_part": pair_source(_INFERENCE, config="snli_part", published_rows=549_367),
        "multi_nli": pair_source(
            _INFERENCE,
            "multi_nli",
            _NLI,
            {"train": "train", "validation": "validation_matched", "test": "validation_mismatched"},
        ),
        "scitail": pair_source(_INFERENCE, "sci_tail", _NLI),
        "dialogue_nli": pair_source("i like dogs .\ti have two dogs .", config="dialogue_nli"),
        # The published test split has no labels, so the test split here is the published validation
        # split, and validation pairs are held out from the training split.
        "quora": pair_source(
            _PARAPHRASE,
            "glue/qqp",
            ("question1", "question2", "label"),
            {"train": "train", "test": "validation"},
        ),
        "quora_tsv": pair_source(_PARAPHRASE, config="quora"),
        "quora_part": pair_source(_PARAPHRASE, config="quora_part", published_rows=384_290),
        "own": own_source("any text\tanother text", pairs_from_files),
        "click_log": own_source("weather paris\tIs it cold in Paris?", pairs_from_click_log),
    }

    def _set_up(self) -> None:
        super()._set_up()
        if self.preset == "click_log":
            self.input_columns = ("query", "question")

    def _read_file(self, file: str, columns: Mapping[str, str] | None) -> TextPairs:
        if self.preset == "click_log":
            whole = pairs_from_click_log({FILE: file}, columns)
            warn_of_dropped(file, whole.dropped[FILE], self.sources[self.preset].dropped)
            return whole.splits[FILE]
        return classified_from_file(TextPairs, file, self.sides, self._classes, columns)

    def _measure(self, model: keras.Model, chosen: Any) -> Measured:
        """Return `classification_figures`."""
        logits = self._outputs(model, chosen)
        probabilities = tf.nn.softmax(tf.constant(logits, tf.float64)).numpy()
        inputs = joined(chosen.first, chosen.second)
        return self._classified(chosen, inputs, probabilities, "pairs")

    def _split(self, text: str | bytes) -> list[str]:
        return split_input(text, self.sides)

    def _readable(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return one pair's answer without padding; weights have a row per attending token."""
        lengths = {side: int(np.sum(row[f"{side}_tokens"] != b"")) for side in self.sides}
        answer = {}
        for name, value in row.items():
            if name.endswith("_tokens"):
                value = value[: lengths[name.removesuffix("_tokens")]]
            elif np.ndim(value) == 2:
                sides = reversed(self.sides) if name.endswith("second") else self.sides
                value = value[tuple(slice(lengths[side]) for side in sides)]  # (S, T) or (T, S)
            answer[name] = plain(value)
        return answer


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

    def answer(self, model: keras.Model, inputs: Sequence[str]) -> list[dict[str, Any]]:
        """Return for each question its candidates, best first, with scores and input positions."""
        answer = self._once(self._answer_function, self._once(self._order_function, model))
        return one_by_one(answer, inputs, _NAMES)

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
