"""Answers to questions as spans of given passages, which are read window by window."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

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
from keras_quasiattn.lab.tasks.batches import (
    as_bytes,
    in_batches,
    joined,
    length_key,
    plain,
    weights_of,
)
from keras_quasiattn.lab.tasks.measured import Measured, judge
from keras_quasiattn.lab.tasks.pairs import first_and_others, one_by_one, split_input
from keras_quasiattn.lab.tasks.preset import SPLITS
from keras_quasiattn.lab.tasks.sources import Source, own_source
from keras_quasiattn.lab.tasks.task import ServingSignature, TokenizedTexts, plain_tokens
from keras_quasiattn.lab.tasks.vocabulary_task import VocabularyTask
from keras_quasiattn.lab.text import SPAN_CLEANINGS, SpanTokenizer
from keras_quasiattn.metrics import SpanAccuracy, SpanF1, scores_by_question
from keras_quasiattn.models import AttentionFlowReader, DecaProp, SpanCrossentropy, best_spans

_CHARACTERS = 8  # bytes of each word that the model reads
_FORMS = 2**31 - 1
# Windows per call of the model, to limit memory for thousands of passages.
_TOGETHER = 32
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


class Words(NamedTuple):
    """The words of texts, ragged (texts, words), and their start and end offsets in bytes."""

    tokens: tf.RaggedTensor
    starts: tf.RaggedTensor
    ends: tf.RaggedTensor

    def counts(self) -> tf.Tensor:
        """Return the number of words in each text, int32 (texts,)."""
        return tf.cast(self.tokens.row_lengths(), tf.int32)


class Windows(NamedTuple):
    """int32 (W,) each: the index of a window's text, and of its first word in that text."""

    rows: tf.Tensor
    starts: tf.Tensor


def split_words(tokenizer: SpanTokenizer, texts: tf.Tensor) -> Words:
    """Return the words of texts (n,)."""
    return Words(*tokenizer.split_with_offsets(texts))


def all_windows(counts: tf.Tensor, size: int, stride: int) -> Windows:
    """Cut every text into windows of `size` words, each `stride` words after the previous one.

    A text without words has no window. If no text has words, the first text gets one window.
    """
    behind = tf.maximum(counts - size, 0)
    numbers = tf.where(counts > 0, 1 - (-behind // stride), 0)  # (texts,): windows of each
    none = tf.reduce_sum(numbers) == 0
    numbers = tf.where(none & (tf.range(tf.size(numbers)) == 0), 1, numbers)
    rows = tf.repeat(tf.range(tf.size(numbers)), numbers)  # (W,)
    before = tf.cumsum(numbers, exclusive=True)
    return Windows(rows, (tf.range(tf.size(rows)) - tf.gather(before, rows)) * stride)


def middle_windows(counts: tf.Tensor, first: tf.Tensor, last: tf.Tensor, size: int) -> Windows:
    """Return a window of `size` words per text (n,), with words `first` to `last` in its middle."""
    wanted = first - tf.maximum(size - (last - first + 1), 0) // 2
    starts = tf.clip_by_value(wanted, 0, tf.maximum(counts - size, 0))
    return Windows(tf.range(tf.size(counts)), starts)


def words_in(words: Words, windows: Windows, size: tf.Tensor) -> tf.Tensor:
    """Return the words of every window: strings (W, size), padded with ""."""
    places = windows.starts[:, tf.newaxis] + tf.range(size)  # (W, size)
    real = places < tf.gather(words.counts(), windows.rows)[:, tf.newaxis]
    begins = tf.gather(tf.cast(words.tokens.row_splits, tf.int32), windows.rows)[:, tf.newaxis]
    # One extra word, so that index 0 exists even if no text has a word.
    flat = tf.concat([words.tokens.flat_values, [""]], axis=0)
    return tf.where(real, tf.gather(flat, tf.where(real, begins + places, 0)), "")


def reader_inputs(
    tokenizer: SpanTokenizer, passage: tf.Tensor, question: tf.Tensor, kinds: tuple[str, ...]
) -> dict[str, tf.Tensor]:
    """Return a reader's inputs, also of `kinds`, for words (B, P) and (B, Q), padded with ""."""
    inputs = {}
    for side, words in (("passage", passage), ("question", question)):
        inputs[side] = tf.where(words == "", tokenizer.pad_id, tokenizer.lookup(words))
        if "characters" in kinds:  # (B, length, 8): bytes, padded with 0
            inputs[f"{side}_characters"] = tf.cast(
                tf.io.decode_raw(words, tf.uint8, fixed_length=_CHARACTERS), tf.int32
            )
        if "forms" in kinds:  # (B, length): hashes of the lower-case words
            forms = tf.strings.to_hash_bucket_fast(
                tf.strings.lower(words, encoding="utf-8"), _FORMS
            )
            inputs[f"{side}_forms"] = tf.cast(forms, tf.int32)
    return inputs


def read_windows(
    read: Callable[[tf.Tensor, tf.Tensor], tf.Tensor],
    windows: Windows,
    words: Words,
    size: int,
    of: tf.Tensor,
) -> tf.Tensor:
    """Return the logits (W, P, 2) of all windows of up to `size` words, 32 windows per call.

    `read` maps the words (w, P) of some windows, and the indices (w,) of their questions, to logits
    (w, P, 2); `of` (texts,) holds the question of each passage.
    """
    count = tf.size(windows.rows)
    length = tf.minimum(tf.reduce_max(tf.concat([words.counts(), [1]], axis=0)), size)
    steps = tf.maximum(-(-count // _TOGETHER), 1)  # without a window, one call of no rows

    def step(number: tf.Tensor, found: Any) -> tuple[tf.Tensor, Any]:
        some = Windows(*(part[number * _TOGETHER : (number + 1) * _TOGETHER] for part in windows))
        logits = read(words_in(words, some, length), tf.gather(of, some.rows))
        return number + 1, found.write(number, logits)

    found = tf.TensorArray(tf.float32, size=steps, infer_shape=False, element_shape=(None, None, 2))
    _, found = tf.while_loop(
        lambda number, _: number < steps, step, (0, found), parallel_iterations=1
    )
    return found.concat()


class Spans(NamedTuple):
    """The best span of every question, (B,) each: its window, first and last word, and score.

    The score is the product of the probabilities of its start and end, both normalized over all
    words in all windows of the question. Window and score are 0 if the question has no window.
    """

    window: tf.Tensor
    first: tf.Tensor
    last: tf.Tensor
    score: tf.Tensor


def best_of_windows(
    logits: tf.Tensor, question: tf.Tensor, count: tf.Tensor, longest: int
) -> Spans:
    """Return the best span of each question over its windows, whose logits are comparable.

    The logits (W, P, 2) are for starts and ends; `question` (W,) is the index, below `count`, of
    each window's question. A span has at most `longest` words.
    """
    first, last, total = best_spans(logits[..., 0], logits[..., 1], longest)  # (W,) each
    most = tf.math.unsorted_segment_max(total, question, count)  # (B,)
    windows = tf.size(question)
    is_best = tf.equal(total, tf.gather(most, question))
    # The first of the best windows of each question, (B,).
    number = tf.where(is_best, tf.range(windows), windows)
    window = tf.math.unsorted_segment_min(number, question, count)
    found = window < windows
    window = tf.where(found, window, 0)
    normalizer = sum(_log_sum(logits[..., side], question, count) for side in (0, 1))
    score = tf.where(found, tf.exp(tf.where(found, most - normalizer, 0.0)), 0.0)
    return Spans(window, tf.gather(first, window), tf.gather(last, window), score)


def _log_sum(logits: tf.Tensor, question: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
    """Return (B,): log Σ exp over all positions in all windows of each question."""
    most = tf.math.unsorted_segment_max(tf.reduce_max(logits, axis=1), question, count)
    # (W,), relative to the maximum of the question.
    sums = tf.reduce_sum(tf.exp(logits - tf.gather(most, question)[:, tf.newaxis]), axis=1)
    return most + tf.math.log(tf.math.unsorted_segment_sum(sums, question, count))


def held(places: tf.RaggedTensor) -> tf.Tensor:
    """Return the number of true values in every row, int32 (B,)."""
    return tf.reduce_sum(tf.cast(places, tf.int32), axis=1)


def at(places: tf.RaggedTensor, row: tf.Tensor, word: tf.Tensor, real: tf.Tensor) -> tf.Tensor:
    """Return the byte offset of one word per text, int32 (B,); arbitrary where `real` is False."""
    begins = tf.gather(tf.cast(places.row_splits, tf.int32), row)
    flat = tf.concat([tf.cast(places.flat_values, tf.int32), [0]], axis=0)
    return tf.gather(flat, tf.where(real, begins + word, 0))


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

    def _length_key(self, texts: ReadingTexts) -> np.ndarray:
        return length_key(self._padded_lengths([texts.questions, texts.passages]))

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
        words = self.tokenizer.split(questions)[:, : self.options.data["question_length"]]
        return self.tokenizer.pad(words, self.options.data["length_multiple"])[0]

    def _inputs(self, passage: tf.Tensor, question: tf.Tensor) -> dict[str, tf.Tensor]:
        model = self.options.model
        kinds: tuple[str, ...] = ("characters",) if model["character_units"] else ()
        kinds += ("forms",) if model["exact_match"] or model["frequency"] else ()
        return reader_inputs(self.tokenizer, passage, question, kinds)

    def tokenize(self, texts: Sequence[str]) -> TokenizedTexts:
        """Return the words of each question and its first passage, truncated to one window."""
        pairs = [split_input(text, _NAMES, more=True) for text in texts]
        columns = [tf.constant(as_bytes([pair[n] for pair in pairs]).tolist()) for n in (0, 1)]
        question = self._question_words(columns[0])
        words = self.tokenizer.split(columns[1])[:, : self.options.data["max_length"]]
        passage = self.tokenizer.pad(words)[0]
        inputs = {name: value.numpy() for name, value in self._inputs(passage, question).items()}
        tokens = {
            side: plain_tokens(tf.RaggedTensor.from_tensor(found, padding=""))
            for side, found in zip(_NAMES, (question, passage), strict=True)
        }
        return TokenizedTexts(inputs, tokens)

    def _measure(self, model: keras.Model, chosen: Any) -> Measured:
        """Return exact match and F1 against each question's closest answer ("" for none)."""
        answer = self._once(self._answer_function, model)
        answers = in_batches(
            lambda question, passage: answer(question, passage[:, tf.newaxis]),  # (B,), (B, 1)
            [chosen.questions, chosen.passages],
            self._padded_lengths([chosen.questions, chosen.passages]),
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

    def answer(self, model: keras.Model, inputs: Sequence[str]) -> list[dict[str, Any]]:
        """Return for each question its answer, score, passage, and start and end in characters."""
        return one_by_one(self._once(self._answer_function, model), inputs, _NAMES)

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
            own_ids=False,
        )

    def _answer_function(self, model: keras.Model) -> Any:
        tokenizer, data = self.tokenizer, self.options.data  # created outside the graph

        @tf.function(input_signature=_SIGNATURE)
        def answer(question: tf.Tensor, passages: tf.Tensor) -> dict[str, tf.Tensor]:
            questions = self._question_words(question)  # (B, Q)
            passages = tf.pad(passages, [[0, 0], [0, tf.maximum(1 - tf.shape(passages)[1], 0)]])
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
                "passage": tf.where(some, row % each, 0),
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
