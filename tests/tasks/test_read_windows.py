"""Windows of passages, and answers across windows."""

import numpy as np
import pytest
import reading_reference as reference
import tensorflow as tf

from keras_quasiattn.lab.tasks.read import (
    all_windows,
    best_of_windows,
    middle_windows,
    read_windows,
    reader_inputs,
    split_words,
    words_in,
)
from keras_quasiattn.lab.text import SpanTokenizer

TOKENIZER = SpanTokenizer(["[PAD]", "[UNK]", "a", "b"])


@pytest.mark.parametrize(("size", "stride"), [(4, 2), (5, 1), (3, 3), (1, 1), (50, 20)])
def test_windows_hold_every_word_and_every_short_answer(size, stride):
    counts = np.arange(14)
    rows, starts = (
        part.numpy() for part in all_windows(tf.constant(counts, tf.int32), size, stride)
    )
    assert (np.diff(rows) >= 0).all()
    for row, count in enumerate(counts):
        begins = starts[rows == row]
        held = {
            (i, j)
            for b in begins
            for i in range(b, min(b + size, count))
            for j in range(i, min(b + size, count))
        }
        longest = size - stride + 1  # what no two windows cut apart
        assert held >= {(i, j) for i in range(count) for j in range(i, min(i + longest, count))}
        assert (begins[1:] + size - stride < count).all(), "no window without a word of its own"
        assert len(begins) == (0 if count == 0 else max(1, 1 - (size - count) // stride))


def test_nothing_to_read_is_one_window():
    windows = all_windows(tf.constant([0, 0, 0]), 4, 2)
    assert [part.numpy().tolist() for part in windows] == [[0], [0]]


def test_windows_of_words_are_filled_with_nothing():
    words = split_words(TOKENIZER, tf.constant(["a b c d e", "", "x"]))
    found = words_in(words, all_windows(words.counts(), 3, 2), tf.constant(3)).numpy().tolist()
    assert found == [[b"a", b"b", b"c"], [b"c", b"d", b"e"], [b"x", b"", b""]]
    windows = middle_windows(words.counts(), tf.constant([3, 0, 0]), tf.constant([3, 0, 0]), 3)
    assert words_in(words, windows, tf.constant(3)).numpy().tolist() == [
        [b"c", b"d", b"e"],
        [b"", b"", b""],
        [b"x", b"", b""],
    ]
    middle = middle_windows(tf.constant([100]), tf.constant([50]), tf.constant([52]), 9)
    assert middle.starts.numpy().tolist() == [47]


def test_what_a_reader_is_called_with():
    words = tf.constant([["b", "Été", ""]])
    given = reader_inputs(TOKENIZER, words, tf.constant([["été"]]), ("characters", "forms"))
    assert given["passage"].numpy().tolist() == [[3, 1, 0]]
    assert given["passage_characters"].numpy()[0].tolist() == [
        [98, 0, 0, 0, 0, 0, 0, 0],
        [*"Été".encode(), 0, 0, 0],
        [0] * 8,
    ]
    # The same word in another case.
    assert given["passage_forms"][0, 1] == given["question_forms"][0, 0]
    assert given["passage_forms"][0, 0] != given["question_forms"][0, 0]
    assert set(reader_inputs(TOKENIZER, words, words, ())) == {"passage", "question"}


def test_thousands_of_passages_are_read_a_few_at_a_time():
    words = split_words(TOKENIZER, tf.constant([f"a {number} b" for number in range(3000)] + [""]))
    windows = all_windows(words.counts(), 2, 1)
    largest = []

    @tf.function
    def run():
        def read(some, rows):
            largest.append(tf.py_function(lambda x: seen.append(len(x)) or 0, [some], tf.int64))
            with tf.control_dependencies(largest[-1:]):
                number = tf.strings.to_number(
                    tf.where(some == "", "0", tf.strings.regex_replace(some, "[ab]", "0"))
                )
            return tf.stack(
                [number, tf.cast(rows, tf.float32)[:, tf.newaxis] + 0 * number], axis=-1
            )

        return read_windows(read, windows, words, 2, tf.range(3001) % 7)

    seen: list[int] = []
    logits = run().numpy()
    assert max(seen) <= 32 and sum(seen) == len(windows.rows) == 6000
    np.testing.assert_array_equal(logits[::2, 1, 0], np.arange(3000))
    np.testing.assert_array_equal(logits[:, 0, 1], np.repeat(np.arange(3000) % 7, 2))


def test_windows_of_a_question_compete():
    logits = np.random.default_rng(0).normal(size=(7, 5, 2)).astype("float32")
    question = np.array([0, 0, 0, 2, 2, 3, 3])
    logits[4, 2:] = -1e9  # padding
    spans = [
        part.numpy() for part in best_of_windows(logits, tf.constant(question), tf.constant(4), 3)
    ]
    for number in (0, 2, 3):
        mine = np.flatnonzero(question == number)
        best = {w: reference.best_span(logits[w, :, 0], logits[w, :, 1], 3) for w in mine}
        totals = {w: logits[w, i, 0] + logits[w, j, 1] for w, (i, j) in best.items()}
        window = max(totals, key=lambda w: totals[w])
        probabilities = np.exp(logits[mine]) / np.exp(logits[mine]).sum((0, 1))
        first, last = best[window]
        place = list(mine).index(window)
        assert [part[number] for part in spans[:3]] == [window, first, last]
        expected = probabilities[place, first, 0] * probabilities[place, last, 1]
        np.testing.assert_allclose(spans[3][number], expected, rtol=1e-4)
    assert spans[3][1] == 0 and np.isfinite(spans[3]).all()
