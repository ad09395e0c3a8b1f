"""Split passages into windows for a reader model, and pick the best span over all windows."""

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from keras_quasiattn.lab.text import SpanTokenizer
from keras_quasiattn.models import best_spans

_CHARACTERS = 8  # bytes of each word that the model reads
_FORMS = 2**31 - 1
# Windows per call of the model, to limit memory for thousands of passages.
_TOGETHER = 32


class Words(NamedTuple):
    """The words of texts, ragged (texts, words), and their start and end offsets in bytes."""

    tokens: tf.RaggedTensor
    starts: tf.RaggedTensor
    ends: tf.RaggedTensor

    def cut(self, length: int) -> "Words":
        """Return the first `length` words of every text."""
        return Words(*(part[:, :length] for part in self))

    def counts(self) -> tf.Tensor:
        """Return the number of words in each text, int32 (texts,)."""
        return tf.cast(self.tokens.row_lengths(), tf.int32)

    def beginnings(self) -> "Windows":
        """Return the window of each text that starts at its first word."""
        return Windows(tf.range(self.tokens.nrows(tf.int32)), tf.zeros_like(self.counts()))


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
    numbers = tf.concat(
        [tf.where(none, tf.ones_like(numbers[:1]), numbers[:1]), numbers[1:]], axis=0
    )
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
    length = tf.maximum(
        tf.minimum(tf.reduce_max(tf.concat([words.counts(), [1]], axis=0)), size), 1
    )
    steps = -(-count // _TOGETHER)

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
