"""Generated texts whose class is the count of their most frequent letter."""

import collections

import numpy as np

from keras_quasiattn.lab.data import counted_letters


def test_the_class_is_the_count_and_no_text_is_in_two_splits():
    made = counted_letters()
    seen: set[bytes] = set()
    for split in made.splits.values():
        for text, label in zip(split.texts, split.labels, strict=True):
            letters = text.split()
            assert 6 <= len(letters) <= 16
            assert max(collections.Counter(letters).values()) == int(made.classes[label])
        assert len(set(np.bincount(split.labels))) == 1  # every class is equally frequent
        assert not seen & set(split.texts)
        seen |= set(split.texts)


def test_the_seed_decides():
    one, same, other = (counted_letters(seed).splits["test"].texts for seed in (1, 1, 2))
    assert list(one) == list(same) and list(one) != list(other)
