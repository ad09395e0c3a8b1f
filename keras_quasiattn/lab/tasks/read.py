"""Answers to questions as spans of given passages: SQuAD, Quasar-T, SearchQA."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import keras
import numpy as np
import tensorflow as tf

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.data import (
    QuestionCorpus,
    ReadingTexts,
    questions_from_files,
    questions_from_tfds,
)
from keras_quasiattn.lab.data.examples import text_array
from keras_quasiattn.lab.data.questions import questions_from_file
from keras_quasiattn.lab.tasks.attention_options import attention_of
from keras_quasiattn.lab.tasks.batches import as_bytes, in_batches, joined, plain, weights_of
from keras_quasiattn.lab.tasks.measured import Measured, judge
from keras_quasiattn.lab.tasks.pairs import first_and_others, one_by_one, split_input
from keras_quasiattn.lab.tasks.preset import SPLITS
from keras_quasiattn.lab.tasks.read_windows import (
    all_windows,
    at,
    best_of_windows,
    held,
    middle_windows,
    read_windows,
    reader_inputs,
    split_words,
    words_in,
)
from keras_quasiattn.lab.tasks.sources import Source, own_source
from keras_quasiattn.lab.tasks.task import ServingSignature, TokenizedTexts, plain_tokens
from keras_quasiattn.lab.tasks.vocabulary_task import VocabularyTask
from keras_quasiattn.lab.text import SPAN_CLEANINGS, SpanTokenizer
from keras_quasiattn.metrics import SpanAccuracy, SpanF1, scores_by_question
from keras_quasiattn.models import AttentionFlowReader, DecaProp, SpanCrossentropy

_NAMES = ("question", "passage")
_SIGNATURE = [
    tf.TensorSpec((None,), tf.string, name="question"),  # (B,)
    tf.TensorSpec((None, None), tf.string, name="passages"),  # (B, C): fill rows with ""
]
_ID_SIGNATURE = [
    tf.TensorSpec((None, None), tf.int32, name="question"),
    tf.TensorSpec((None, None, None), tf.int32, name="passages"),
]
_EXAMPLE = (
    "When was the tower built?\tThe tower in Paris was built from 1887 to 1889. It is 330 m high."
)
_DROPPED = "training questions without their answer in the passage"


def _corpus(builder: Any = QuestionCorpus, splits: Sequence[str] = SPLITS, **more: Any) -> Source:
    """Return the source of a data set with these `splits` for training, validation and test."""
    names = dict(zip(SPLITS if len(splits) > 2 else ("train", "test"), splits, strict=True))
    return Source(
        builder=builder,
        example=_EXAMPLE,
        read=lambda made, _: questions_from_tfds(made, names),
        dropped=_DROPPED,
        **more,
    )


_LINES = _corpus(
    config="squad_lines",
    splits=("train", "test"),
    note="offsets of repeated answers reconstructed in the training questions",
)


class Read(VocabularyTask):
    """Extractive question answering: the answer is a span of a passage. Options: `read_presets`.

    Source: Tay et al. 2018, "Densely Connected Attention Propagation for Reading Comprehension";
    Tay et al. 2019, §3.1.
    """

    name: ClassVar[str] = "read"
    figure: ClassVar[str] = "f1"
    shares: ClassVar[tuple[str, ...]] = ("exact_match",)
    sources: ClassVar[Mapping[str, Source]] = {
        # The published test questions are secret, so the test split here is the development set.
        "squad": _corpus("squad/v1.1", ("train", "validation")),
        "squad_json": _corpus(config="squad", splits=("train", "test")),
        "squad_lines": _LINES,
        "squad_part": _LINES,
        "quasar_t": _corpus(config="quasar_t_short"),
        "quasar_t_long": _corpus(config="quasar_t_long"),
        "search_qa": _corpus(config="search_qa"),
        "own": own_source(_EXAMPLE, questions_from_files, dropped=_DROPPED),
    }
    tokenizers: ClassVar[tuple[str, ...]] = SPAN_CLEANINGS
    word_tokenizer: ClassVar[type[SpanTokenizer]] = SpanTokenizer
    weighted_metrics: ClassVar[bool] = False  # the targets say which questions do not count
    least: ClassVar[Mapping[str, int]] = {
        **VocabularyTask.least,
        "data.train_length": 1,
        "data.stride": 1,
        "data.question_length": 1,
        "data.answer_length": 1,
    }

    def _set_up(self) -> None:
        super()._set_up()
        data = self.options.data
        most = data["max_length"] - data["answer_length"] + 1
        if data["stride"] > most:
            raise UserError(
                f"data.stride is {data['stride']}: it must be at most {most} (data.max_length − "
                f"data.answer_length + 1), or an answer may fit in no window"
            )
        if smoothing := self.options.training.label_smoothing:
            raise UserError(f"training.label_smoothing is {smoothing}: task read supports only 0")

    def _load(self) -> tuple[Any, str]:
        share = self.options.data["train_share"]
        if not 0 < share <= 1:
            raise UserError(f"data.train_share is {share}: it must be above 0 and at most 1")
        whole, note = super()._load()
        if share == 1:
            return whole, note
        train = whole.splits["train"]
        part = train.part(share)
        if not len(part):
            raise UserError(
                f"data.train_share is {share}: it leaves none of {len(train):,} training questions"
            )
        counts = f"{len(part):,} of {len(train):,} training questions"
        whole = dataclasses.replace(whole, splits={**whole.splits, "train": part})
        return whole, "; ".join(filter(None, (note, f"a part: {counts}, by a hash of the passage")))

    def _read_file(self, file: str, columns: Mapping[str, str] | None) -> ReadingTexts:
        return questions_from_file(file)

    def _training_texts(self) -> list[bytes]:
        train = self._data.splits["train"]
        return [*train.questions.tolist(), *dict.fromkeys(train.passages.tolist())]

    def _limits(self) -> dict[str, tuple[str, int]]:
        # Passages are read window by window.
        return {"question": ("data.question_length", self.options.data["question_length"])}

    def _make_model(self, vocabulary_size: int, num_classes: int) -> keras.Model:
        options, attention = attention_of(self.options.model)
        reader = AttentionFlowReader if self.model == "attention_flow" else DecaProp
        return reader(vocabulary_size, **options, **attention)

    def loss(self) -> keras.losses.Loss:
        """Return the cross-entropy of the start plus the cross-entropy of the end."""
        return SpanCrossentropy()

    def metrics(self) -> list[keras.metrics.Metric]:
        """Return exact match and word F1 of spans, within windows that contain the answer."""
        longest = self.options.data["answer_length"]
        return [SpanAccuracy(longest, name="accuracy"), SpanF1(longest, name="f1")]

    def _validation_examples(self) -> ReadingTexts:
        texts = self._data.splits["validation"]
        texts = texts.where(texts.starts >= 0)
        if not len(texts):
            raise UserError(f"no validation passage of {self._data.version} contains the answer")
        return texts

    def _targets(self, texts: ReadingTexts) -> dict[str, np.ndarray]:
        return {"start": texts.starts, "end": texts.ends}

    def _row_lengths(self, texts: ReadingTexts) -> np.ndarray:
        return self._lengths(texts.passages)

    def _lengths(self, texts: np.ndarray) -> np.ndarray:
        distinct = {text: number for number, text in enumerate(dict.fromkeys(texts.tolist()))}
        lengths = super()._lengths(text_array(distinct))
        return lengths[[distinct[text] for text in texts.tolist()]]

    def _encode(self, examples: dict[str, tf.Tensor]) -> tuple[Any, ...]:
        """Return model inputs, one window per passage, and targets (B, 3)."""
        weights = weights_of(examples)  # only in validation
        size = self.options.data["max_length" if weights else "train_length"]
        words = split_words(self.tokenizer, examples["passage"])
        first = held(words.ends <= examples["start"][:, tf.newaxis])  # (B,): first answer word
        last = tf.maximum(held(words.starts < examples["end"][:, tf.newaxis]) - 1, first)
        windows = middle_windows(words.counts(), first, last, size)  # around the answers
        multiple = self.options.data["length_multiple"]
        longest = tf.minimum(tf.reduce_max(words.counts()), size)
        passage = words_in(words, windows, -(-tf.maximum(longest, 1) // multiple) * multiple)
        ends = tf.minimum(last - windows.starts, tf.shape(passage)[1] - 1)
        counts = tf.cast(weights[0] > 0, tf.int32) if weights else tf.ones_like(ends)
        target = tf.stack([first - windows.starts, ends, counts], axis=1)
        question = self._question_words(examples["question"])
        return self._inputs(passage, question), target, *weights

    def _question_words(self, questions: tf.Tensor) -> tf.Tensor:
        """Return the first `data.question_length` words (B, Q), padded with ""; Q is at least 1."""
        words = split_words(self.tokenizer, questions).cut(self.options.data["question_length"])
        multiple = self.options.data["length_multiple"]
        longest = tf.reduce_max(tf.concat([words.counts(), [1]], axis=0))
        return words_in(words, words.beginnings(), -(-longest // multiple) * multiple)

    def _inputs(self, passage: tf.Tensor, question: tf.Tensor) -> dict[str, tf.Tensor]:
        model = self.options.model
        kinds: tuple[str, ...] = ("characters",) if model["character_units"] else ()
        kinds += ("forms",) if model["exact_match"] or model["frequency"] else ()
        return reader_inputs(self.tokenizer, passage, question, kinds)

    def tokenize(self, texts: Sequence[str]) -> TokenizedTexts:
        """Return the words of each question and its first passage, truncated to one window."""
        pairs = [split_input(text, _NAMES, more=True) for text in texts]
        columns = [
            tf.constant(as_bytes([pair[side] for pair in pairs]).tolist()) for side in (0, 1)
        ]
        question = self._question_words(columns[0])
        words = split_words(self.tokenizer, columns[1]).cut(self.options.data["max_length"])
        longest = tf.maximum(tf.reduce_max(words.counts()), 1)
        passage = words_in(words, words.beginnings(), longest)
        inputs = {name: value.numpy() for name, value in self._inputs(passage, question).items()}
        tokens = {
            side: plain_tokens(tf.RaggedTensor.from_tensor(found, padding=""))
            for side, found in zip(_NAMES, (question, passage), strict=True)
        }
        return TokenizedTexts(inputs, tokens)

    def _measure(self, model: keras.Model, chosen: Any) -> Measured:
        """Return exact match and F1 against each question's closest answer ("" for none)."""
        answer = self._answer_function(model)
        answers = in_batches(
            lambda question, passage: answer(question, passage[:, tf.newaxis]),  # (B,), (B, 1)
            [chosen.questions, chosen.passages],
            [self._lengths(chosen.questions), self._lengths(chosen.passages)],
        )
        found = [plain(row["answer"]) for row in answers]
        right = chosen.answers.tolist()
        scores = scores_by_question(found, right)
        figures = {name: float(np.mean(one)) for name, one in scores.items()}
        counts = {"questions": len(right), "unanswerable": right.count(("",))}
        figures |= {name: count for name, count in counts.items() if count}
        wanted = [" / ".join(dict.fromkeys(one)) for one in right]
        inputs, sure = joined(chosen.questions, chosen.passages), [one["score"] for one in answers]
        judged = judge(inputs, wanted, found, scores["exact_match"], sure)
        return Measured(figures, np.array(scores["f1"]), judged)

    def predict(self, model: keras.Model, inputs: Sequence[str]) -> list[dict[str, Any]]:
        """Return for each question its answer, score, passage, and start and end in characters."""
        for text in inputs:
            self.check_input(text)
        return one_by_one(self._answer_function(model), inputs, _NAMES)

    def check_input(self, text: str | bytes) -> None:
        """Reject input without a passage, and empty or too long questions; tabs separate texts."""
        question = split_input(text, _NAMES, more=True)[0]
        if not question.strip():
            raise UserError(
                f"the question of the input {text!r} is empty: "
                f"give a question and at least one passage, separated by tabs"
            )
        most = self.options.data["question_length"]
        words = len(self.tokenizer.split(tf.constant(as_bytes([question]).tolist()))[0])
        if words > most:
            raise UserError(
                f"the question {question[:60]!r}… has {words} words; the maximum is {most} "
                f"(data.question_length)"
            )

    def serving_signature(self, model: keras.Model) -> ServingSignature:
        """Take `question`, `passages`; return `answer`, `score`, `passage`, `start`, `end`."""
        answer = self._answer_function(model)
        return ServingSignature(
            function=answer,
            input_signature=_SIGNATURE,
            resources=self.tokenizer.resources,
            tokenize=lambda texts: tf.strings.unicode_decode(texts, "UTF-8"),  # ids: code points
            answer_ids=_of_characters(answer),
            columns=lambda text: first_and_others(text, _NAMES),
        )

    def _answer_function(self, model: keras.Model) -> Any:
        tokenizer, data = self.tokenizer, self.options.data  # created outside the graph

        @tf.function(input_signature=_SIGNATURE)
        def answer(question: tf.Tensor, passages: tf.Tensor) -> dict[str, tf.Tensor]:
            questions = self._question_words(question)  # (B, Q)
            each = tf.shape(passages)[1]
            flat = tf.reshape(passages, (-1,))  # (B·C,)
            words = split_words(tokenizer, flat)
            of = tf.repeat(tf.range(tf.size(question)), each)  # (B·C,)
            windows = all_windows(words.counts(), data["max_length"], data["stride"])  # every word
            logits = read_windows(
                lambda some, rows: model(
                    self._inputs(some, tf.gather(questions, rows)), training=False
                ),
                windows,
                words,
                data["max_length"],
                of,
            )
            spans = best_of_windows(
                logits, tf.gather(of, windows.rows), tf.size(question), data["answer_length"]
            )
            row = tf.gather(windows.rows, spans.window)  # (B,): the passage in `flat`
            begin = tf.gather(windows.starts, spans.window)
            some = (spans.score > 0) & (begin + spans.last < tf.gather(words.counts(), row))
            starts, ends = (  # (B,), in bytes
                tf.where(some, at(places, row, begin + word, some), 0)
                for places, word in ((words.starts, spans.first), (words.ends, spans.last))
            )
            text = tf.where(some, tf.gather(flat, row), "")  # "" if the best span is padding
            found = tf.strings.substr(text, starts, ends - starts)
            before = tf.strings.length(
                tf.strings.substr(text, tf.zeros_like(starts), starts), "UTF8_CHAR"
            )
            return {  # (B,) each; in Python, `passages[passage][start:end]` is the answer
                "answer": found,  # "" if no passage has a word
                "score": tf.where(some, spans.score, 0.0),  # probability among all spans
                "passage": tf.where(some, row % tf.maximum(each, 1), 0),
                "start": before,  # in Unicode characters, as the end
                "end": before + tf.strings.length(found, "UTF8_CHAR"),
            }

        return answer


def _of_characters(answer: Any) -> Any:
    """Return `answer` for Unicode code points, padded with 0, instead of strings."""

    def text_of(ids: tf.Tensor) -> tf.Tensor:
        rows = tf.RaggedTensor.from_tensor(tf.reshape(ids, (-1, tf.shape(ids)[-1])), padding=0)
        return tf.reshape(tf.strings.unicode_encode(rows, "UTF-8"), tf.shape(ids)[:-1])  # (...,)

    @tf.function(input_signature=_ID_SIGNATURE)
    def of_characters(question: tf.Tensor, passages: tf.Tensor) -> dict[str, tf.Tensor]:
        return answer(text_of(question), text_of(passages))

    return of_characters
