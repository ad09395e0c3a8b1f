"""Hashes of numbers; test_arithmetic.py has the permutation that is made with them."""

import numpy as np

from keras_quasiattn.lab.data.hashing import keyed_hash


def test_hash_depends_on_key_and_on_the_order_of_words():
    words = np.array([4]), np.array([9])
    hashes = {
        int(keyed_hash(key, *pair)[0])
        for key in (0, 1, -1)
        for pair in (words, words[::-1], words[:1])
    }
    assert len(hashes) == 9


def test_hash_is_the_same_for_ever():
    # Splits on disk depend on it: the first output of SplitMix64 with the seed 0.
    assert int(keyed_hash(0, np.array([0]))[0]) == 0xE220A8397B1DCDAF
