import numpy as np
import pytest

from keras_quasiattn.lab.data.hashing import keyed_hash, permute


@pytest.mark.parametrize("bits", [1, 2, 3, 10, 15])
@pytest.mark.parametrize("key", [0, -1, 2**63])
def test_permutation_is_a_bijection(bits, key):
    permuted = permute(np.arange(2**bits), bits, key)
    np.testing.assert_array_equal(np.sort(permuted), np.arange(2**bits))


def test_permutation_is_computed_index_by_index():
    np.testing.assert_array_equal(
        permute(np.arange(100, 200), 12, 7), permute(np.arange(2**12), 12, 7)[100:200]
    )


def test_permutation_leaves_no_trend_and_depends_on_the_key():
    order = np.arange(2**15)
    one, other = permute(order, 15, 1), permute(order, 15, 2)
    # The correlation of two random orders of n has standard deviation 1/√n.
    for first, second in [(order, one), (one, other), (one[1:], one[:-1])]:
        assert abs(np.corrcoef(first, second)[0, 1]) < 5 / np.sqrt(2**15)
    # A slice of the order is spread over all the values.
    counts = np.histogram(one[: 2**12], bins=16, range=(0, 2**15))[0]
    np.testing.assert_allclose(counts, 256, atol=5 * 16)


def test_widest_permutation_stays_in_range():
    permuted = permute(np.array([0, 1, 2**63 - 1]), 63, 5)
    assert (permuted >= 0).all() and len(set(permuted.tolist())) == 3


def test_hash_bits_are_fair():
    hashes = keyed_hash(3, np.arange(-5000, 5000))
    assert len(np.unique(hashes)) == 10_000
    shares = [np.mean((hashes >> np.uint64(bit)) & np.uint64(1)) for bit in range(64)]
    np.testing.assert_allclose(shares, 0.5, atol=5 * 0.5 / 100)


def test_hash_depends_on_key_and_on_the_order_of_words():
    words = np.array([4]), np.array([9])
    hashes = {
        int(keyed_hash(key, *pair)[0])
        for key in (0, 1, -1)
        for pair in (words, words[::-1], words[:1])
    }
    assert len(hashes) == 9


def test_hash_is_the_same_for_ever():
    # Splits on disk depend on it.
    assert (
        int(keyed_hash(0, np.array([0]))[0]) == 0xE220A8397B1DCDAF
    )  # first output of SplitMix64 seeded with 0
