"""Questions and passages as a reader takes them, window by window, and spans of all windows as answers."""

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from keras_quasiattn.models import best_spans
from keras_quasiattn.text import SpanTokenizer

_CHARACTERS = 8  # bytes of a word that count
_FORMS = 2**31 - 1
# Windows that the model reads together: what thousands of passages need at a time.
_TOGETHER = 32


class Words(NamedTuple):
    """Ragged words of texts, (texts, words), and the bytes of the text at which each begins and ends."""

    tokens: tf.RaggedTensor
    starts: tf.RaggedTensor
    ends: tf.RaggedTensor

    def cut(self, length: int) -> "Words":
        """The first words of every text."""
        return Words(*(part[:, :length] for part in self))

    def counts(self) -> tf.Tensor:
        """int32 (texts,), the number of words of each."""
        return tf.cast(self.tokens.row_lengths(), tf.int32)


class Windows(NamedTuple):
    """int32 (W,) each: the text that a window is of, and the number of its first word in the text."""

    rows: tf.Tensor
    starts: tf.Tensor


def split_words(tokenizer: SpanTokenizer, texts: tf.Tensor) -> Words:
    """The words of texts (n,)."""
    return Words(*tokenizer.split_with_offsets(texts))


def all_windows(counts: tf.Tensor, size: int, stride: int) -> Windows:
    """Windows of `size` words, each `stride` words behind the one before, that hold every word of every text.

    A text without words has no window; if that is so of all, the first has one nonetheless.

    >>> rows, starts = all_windows(tf.constant([3, 0, 7]), size=4, stride=2)
    >>> rows.numpy().tolist(), starts.numpy().tolist()
    ([0, 2, 2, 2], [0, 0, 2, 4])
    """
    behind = tf.maximum(counts - size, 0)
    numbers = tf.where(counts > 0, 1 - (-behind // stride), 0)
    none = tf.reduce_sum(numbers) == 0
    numbers = tf.concat(
        [tf.where(none, tf.ones_like(numbers[:1]), numbers[:1]), numbers[1:]], axis=0
    )
    rows = tf.repeat(tf.range(tf.size(numbers)), numbers)
    before = tf.cumsum(numbers, exclusive=True)
    return Windows(rows, (tf.range(tf.size(rows)) - tf.gather(before, rows)) * stride)


def middle_windows(counts: tf.Tensor, first: tf.Tensor, last: tf.Tensor, size: int) -> Windows:
    """One window of `size` words a text, (n,), with the words from `first` to `last` in its middle as far as can be."""
    wanted = first - tf.maximum(size - (last - first + 1), 0) // 2
    starts = tf.clip_by_value(wanted, 0, tf.maximum(counts - size, 0))
    return Windows(tf.range(tf.size(counts)), starts)


def words_in(words: Words, windows: Windows, size: tf.Tensor) -> tf.Tensor:
    """The words of every window, strings (W, size), with "" for padding."""
    places = windows.starts[:, tf.newaxis] + tf.range(size)
    real = places < tf.gather(words.counts(), windows.rows)[:, tf.newaxis]
    begins = tf.gather(tf.cast(words.tokens.row_splits, tf.int32), windows.rows)[:, tf.newaxis]
    # One word more, so that there is one to take where a text has none.
    flat = tf.concat([words.tokens.flat_values, [""]], axis=0)
    return tf.where(real, tf.gather(flat, tf.where(real, begins + places, 0)), "")


def reader_inputs(
    tokenizer: SpanTokenizer, passage: tf.Tensor, question: tf.Tensor, kinds: tuple[str, ...]
) -> dict[str, tf.Tensor]:
    """What a reader is called with.

    Args:
        tokenizer: knows the ids.
        passage: words (B, P), with "" for padding.
        question: words (B, Q), with the same padding.
        kinds: "characters", "forms" or both, where the model takes them.
    """
    inputs = {}
    for side, words in (("passage", passage), ("question", question)):
        inputs[side] = tf.where(words == "", tokenizer.pad_id, tokenizer.lookup(words))
        if "characters" in kinds:
            inputs[f"{side}_characters"] = tf.cast(
                tf.io.decode_raw(words, tf.uint8, fixed_length=_CHARACTERS), tf.int32
            )
        if "forms" in kinds:
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
    """The logits (W, P, 2) of all windows, some at a time, with P the number of words in the longest.

    Args:
        read: takes the words (w, P) of some windows and the questions' numbers (w,), gives logits (w, P, 2).
        windows: of the passages.
        words: of the passages.
        size: words in a window.
        of: (texts,), the number of each passage's question.
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
    """The best span of every question, (B,) each.

    Args:
        window: number of its window; 0 where a question has none.
        first: number of its first word in the window.
        last: number of its last word.
        score: its probability: that of its start times that of its end, both over all words of all windows of the
            question; 0 where it has none.
    """

    window: tf.Tensor
    first: tf.Tensor
    last: tf.Tensor
    score: tf.Tensor


def best_of_windows(
    logits: tf.Tensor, question: tf.Tensor, count: tf.Tensor, longest: int
) -> Spans:
    """The best span of each question over all of its windows, whose logits are of one measure.

    Args:
        logits: (W, P, 2).
        question: int32 (W,), the number of the question of each window.
        count: number of questions.
        longest: words in a span.
    """
    first, last, total = best_spans(logits[..., 0], logits[..., 1], longest)
    most = tf.math.unsorted_segment_max(total, question, count)
    windows = tf.size(question)
    is_best = tf.equal(total, tf.gather(most, question))
    number = tf.where(is_best, tf.range(windows), windows)
    window = tf.math.unsorted_segment_min(number, question, count)
    found = window < windows
    window = tf.where(found, window, 0)
    normalizer = sum(_log_sum(logits[..., side], question, count) for side in (0, 1))
    score = tf.where(found, tf.exp(tf.where(found, most - normalizer, 0.0)), 0.0)
    return Spans(window, tf.gather(first, window), tf.gather(last, window), score)


def _log_sum(logits: tf.Tensor, question: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
    """(B,): log Σ exp over all positions of all windows of each question."""
    most = tf.math.unsorted_segment_max(tf.reduce_max(logits, axis=1), question, count)
    sums = tf.reduce_sum(tf.exp(logits - tf.gather(most, question)[:, tf.newaxis]), axis=1)
    return most + tf.math.log(tf.math.unsorted_segment_sum(sums, question, count))
