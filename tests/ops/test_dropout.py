"""Dropout patterns: rate, independence, and that a tile is part of the whole pattern."""

import numpy as np
import pytest
from keras import ops as keras_ops
from tools import to_numpy

from keras_quasiattn import ops
from keras_quasiattn.core.randomness import drop_weights, dropout_keep, dropout_keys

LENGTH = 96


def pattern(seed=(3, 0), batch_size=4, rate=0.3, rows=range(LENGTH), columns=range(LENGTH)):
    keys = dropout_keys(keras_ops.convert_to_tensor(seed, dtype="int32"), batch_size)
    rows, columns = (keras_ops.convert_to_tensor(list(x), dtype="int32") for x in (rows, columns))
    return to_numpy(dropout_keep(keys, rows, columns, rate))


def agreement(one, other):
    """Return the share of equal decisions beyond chance, in standard deviations."""
    p = one.mean() * other.mean() + (1 - one.mean()) * (1 - other.mean())
    return abs((one == other).mean() - p) / np.sqrt(p * (1 - p) / one.size)


@pytest.mark.parametrize("rate", [0.01, 0.1, 0.5, 0.9])
def test_rate(rate):
    dropped = 1 - pattern(rate=rate).mean()
    assert abs(dropped - rate) < 4 * np.sqrt(rate * (1 - rate) / (4 * LENGTH**2))


def test_every_row_and_column_has_the_rate():
    keep = pattern(rate=0.5, batch_size=16)
    for axis in (1, 2):
        shares = keep.mean(axis=(0, axis))
        assert np.abs(shares - 0.5).max() < 5 * 0.5 / np.sqrt(16 * LENGTH)


@pytest.mark.parametrize("seed", [(3, 0), (0, 0), (2**31 - 1, 7), (-5, 1)])
def test_heads_rows_and_columns_are_independent(seed):
    keep = pattern(seed, rate=0.5)
    pairs = [(keep[i], keep[j]) for i in range(4) for j in range(i)]
    pairs += [(keep[:, 1:], keep[:, :-1]), (keep[:, :, 1:], keep[:, :, :-1])]
    pairs += [(keep, np.swapaxes(keep, 1, 2)), (keep[:, 1:, 1:], keep[:, :-1, :-1])]
    assert max(agreement(*pair) for pair in pairs) < 5


@pytest.mark.parametrize("other", [(4, 0), (2, 0), (3, 1), (0, 3)])
def test_other_seeds_share_no_pattern(other):
    """Nor do heads: a seed higher by one must not shift the patterns by one head."""
    mine, theirs = pattern((3, 0), rate=0.5), pattern(other, rate=0.5)
    assert max(agreement(one, two) for one in mine for two in theirs) < 5


def test_a_tile_is_a_part_of_the_whole():
    whole = pattern()
    tile = pattern(rows=range(5, 18), columns=range(64, 95))
    np.testing.assert_array_equal(tile, whole[:, 5:18, 64:95])
    np.testing.assert_array_equal(pattern(), whole)


def test_backends_agree():
    """The pattern is integer arithmetic, so it is the same on every backend.

    EXPECTED holds the first decisions of seed 3.
    """
    mixed = np.array(
        [int("".join(map(str, row.astype(int))), 2) for row in pattern(batch_size=1)[0, :8, :16]]
    )
    np.testing.assert_array_equal(mixed, EXPECTED)


EXPECTED = [64333, 62908, 46841, 30703, 52201, 28360, 16382, 61311]


def test_drop_weights():
    weights = keras_ops.convert_to_tensor(np.random.default_rng(0).normal(size=(2, 3, 5, 7)))
    seed = keras_ops.convert_to_tensor([3, 0], dtype="int32")
    dropped, plain = to_numpy(drop_weights(weights, 0.25, seed)), to_numpy(weights)
    kept = dropped != 0
    assert 0.5 < kept.mean() < 1
    np.testing.assert_allclose(dropped[kept], plain[kept] / 0.75, rtol=1e-12)
    np.testing.assert_array_equal(to_numpy(drop_weights(weights, 0.0, None)), plain)


@pytest.mark.parametrize("op", [ops.coda_attention, ops.softmax_attention])
def test_ops_drop_weights_but_not_scores(op):
    x = np.random.default_rng(0).normal(size=(2, 3, 5, 7)).astype("float32")
    seed = keras_ops.convert_to_tensor([3, 0], dtype="int32")
    _, scores = op(x, x, x, return_scores=True)
    output, again = op(x, x, x, return_scores=True, dropout=0.25, dropout_seed=seed)
    np.testing.assert_array_equal(to_numpy(again), to_numpy(scores))
    expected = to_numpy(drop_weights(scores, 0.25, seed)) @ x
    np.testing.assert_allclose(to_numpy(output), expected, rtol=1e-4, atol=1e-5)
