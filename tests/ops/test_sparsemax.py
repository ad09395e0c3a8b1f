"""Sparsemax against the paper's algorithm, its Jacobian and published examples."""

import numpy as np
from tools import to_numpy
from weight_laws import WeightLaws, products

from keras_quasiattn import layers, ops


def algorithm_1(z):
    """Martins & Astudillo 2016, algorithm 1, for one row."""
    highest = np.sort(z)[::-1]
    size = max(k for k in range(1, len(z) + 1) if 1 + k * highest[k - 1] > highest[:k].sum())
    return np.maximum(z - (highest[:size].sum() - 1) / size, 0)


def by_row(function, e, seen):
    weights = np.zeros(e.shape)
    for place in np.ndindex(e.shape[:-1]):
        if seen[place].any():
            weights[place][seen[place]] = function(e[place][seen[place]])
    return weights


class TestSparsemax(WeightLaws):
    op = staticmethod(ops.sparsemax_attention)
    layer = layers.MultiHeadSparsemax
    options = ({"scale": 0.3}, {"scale": 20.0})

    def weights(self, query, key, seen, bias, *, scale=1.0):
        return by_row(algorithm_1, products(query, key, scale) + bias, seen)


def test_the_example_of_the_entmax_package():
    # Printed in the README of the package that Peters et al. published.
    got = to_numpy(ops.sparsemax(np.array([-2, 0, 0.5])))
    np.testing.assert_allclose(got, [0, 0.25, 0.75], atol=1e-12)


def test_scores_at_the_ends_of_float32():
    z = np.array([[3e38, 2e38, -3e38], [-3e38, -3e38, -3e38], [0, -1e30, np.nan]], "float32")
    mask = np.array([[True, True, True], [True, True, False], [True, True, False]])
    np.testing.assert_array_equal(
        to_numpy(ops.sparsemax(z, mask)), [[1, 0, 0], [0.5, 0.5, 0], [1, 0, 0]]
    )
