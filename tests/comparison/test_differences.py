"""Paired differences: their definition in plain lines, their coverage, and their verdicts."""

import numpy as np
import pytest

from keras_quasiattn.lab.comparison.differences import difference


def variance_of_the_mean(d):
    """Estimate it in plain loops: seeds and items are crossed random effects; parts are ≥ 0."""
    seeds, items = d.shape
    mean = sum(map(sum, d)) / (seeds * items)
    rows = [sum(row) / items for row in d]
    columns = [sum(column) / seeds for column in d.T]
    of_seeds = items * sum((row - mean) ** 2 for row in rows) / (seeds - 1)
    of_items = seeds * sum((column - mean) ** 2 for column in columns) / (items - 1)
    rest = sum(
        (d[s, i] - rows[s] - columns[i] + mean) ** 2 for s in range(seeds) for i in range(items)
    ) / ((seeds - 1) * (items - 1))
    return (max(of_seeds, rest) + max(of_items, rest) - rest) / (seeds * items)


@pytest.mark.parametrize(("of_seeds", "of_items"), [(0.0, 0.0), (0.3, 0.0), (0.0, 0.5), (0.2, 0.4)])
def test_the_interval_is_that_of_crossed_seeds_and_items(of_seeds, of_items):
    rng = np.random.default_rng(0)
    d = rng.normal(0.1, 0.3, (3, 40))
    d += rng.normal(0, of_seeds, (3, 1)) + rng.normal(0, of_items, (1, 40))
    found = difference(d, np.zeros_like(d))
    assert found.mean == pytest.approx(d.mean())
    assert found.half is not None
    # Student's quantile is between that of the normal distribution and that of one degree.
    assert 1.95 < found.half / variance_of_the_mean(d) ** 0.5 < 4.31


def test_whole_figures_have_students_interval():
    figures = np.array([0.8, 0.9, 0.85])
    found = difference(figures, np.array([0.7, 0.75, 0.8]))
    gaps = figures - [0.7, 0.75, 0.8]
    assert found.half == pytest.approx(4.302653 * gaps.std(ddof=1) / 3**0.5, rel=1e-6)
    assert (found.seeds, found.items, found.verdict) == (3, 0, "no difference shown")


@pytest.mark.parametrize(
    ("gap", "sign", "verdict"),
    [(0.2, 1, "ahead"), (-0.2, 1, "behind"), (0.2, -1, "behind"), (-0.2, -1, "ahead")],
)
def test_verdicts_follow_what_is_better(gap, sign, verdict):
    ours = np.array([0.5, 0.51, 0.5]) + gap
    assert difference(ours, np.array([0.5, 0.5, 0.5]), sign).verdict == verdict


def test_one_seed_ranks_nothing_however_many_items():
    found = difference(np.ones((1, 1000)), np.zeros((1, 1000)))
    assert found.half is None and found.verdict == "one seed: no verdict"


def test_equal_models_have_no_difference_and_no_width():
    same = np.random.default_rng(0).integers(0, 2, (3, 20)).astype(float)
    found = difference(same, same)
    assert (found.mean, found.half, found.verdict) == (0, 0, "no difference shown")


def test_one_item_says_no_more_than_its_seeds():
    whole, single = np.array([0.1, 0.4, 0.2]), np.array([[0.1], [0.4], [0.2]])
    zeros = np.zeros(3)
    assert difference(single, zeros[:, None]).half == difference(whole, zeros).half


@pytest.mark.parametrize("shape", [(), (2, 3, 4), (0,), (3, 0)])
def test_other_shapes_are_refused(shape):
    with pytest.raises(ValueError, match="same shape"):
        difference(np.zeros(shape), np.zeros(shape))


def test_unequal_shapes_and_nan_are_refused():
    with pytest.raises(ValueError, match=r"\(2,\) and \(3,\)"):
        difference(np.zeros(2), np.zeros(3))
    with pytest.raises(ValueError, match="finite"):
        difference(np.array([np.nan, 1.0]), np.zeros(2))


@pytest.mark.long
@pytest.mark.parametrize(
    ("seeds", "items", "of_seeds", "of_items"),
    [(3, 500, 0.0, 0.3), (3, 500, 0.1, 0.3), (5, 200, 0.05, 0.0), (3, 300, 0.0, 0.0)],
)
def test_nineteen_of_twenty_intervals_hold_the_truth(seeds, items, of_seeds, of_items):
    rng = np.random.default_rng(1)
    held = 0
    for _ in range(600):
        d = rng.normal(0, 0.4, (seeds, items))
        d += rng.normal(0, of_seeds, (seeds, 1)) + rng.normal(0, of_items, (1, items))
        found = difference(d, np.zeros_like(d))
        held += abs(found.mean) <= (found.half or 0)
    assert held / 600 > 0.91
