"""Which examples share a batch, and in which order their answers come back."""

import numpy as np
import pytest
import tensorflow as tf

from keras_quasiattn.lab.tasks.batches import in_batches, length_key

RNG = np.random.default_rng(0)
FIRST, SECOND = RNG.integers(1, 30, 4000), RNG.integers(1, 90, 4000)


def padded(order, *columns, size=40):
    """Return the pairs of positions (padded) of all batches, divided by those of the texts."""
    batches = np.split(np.stack(columns)[:, order], len(order) // size, axis=1)
    pairs = sum(size * np.prod(batch.max(axis=1)) for batch in batches)
    return pairs / np.prod(columns, axis=0).sum()


def test_two_sequences_need_less_padding_than_by_their_sum_or_by_either_of_them():
    orders = [FIRST + SECOND, FIRST, SECOND]
    others = [padded(np.argsort(order, kind="stable"), FIRST, SECOND) for order in orders]
    assert padded(np.argsort(length_key([FIRST, SECOND])), FIRST, SECOND) < 0.8 * min(others)


def test_one_sequence_is_sorted_by_its_length():
    assert length_key([SECOND]).tolist() == SECOND.tolist()


@pytest.mark.parametrize("columns", [1, 2])
def test_without_rows_there_is_no_key(columns):
    assert length_key([np.zeros(0, np.int32)] * columns).shape == (0,)


def test_answers_come_back_in_the_order_of_the_rows():
    texts = np.array([b"x" * count for count in FIRST], object)
    sizes = []

    def answer(first, second):
        lengths = tf.strings.length(first)
        sizes.append(len(lengths))
        return {"length": lengths}

    rows = in_batches(answer, [texts, texts], [FIRST, SECOND])
    assert [int(row["length"]) for row in rows] == FIRST.tolist()
    assert sizes == [100] * 40
