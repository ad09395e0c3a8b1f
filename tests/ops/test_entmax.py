"""α-entmax against a long bisection, a softmax, a sparsemax, its Jacobian and its α's gradient."""

import keras
import numpy as np
import pytest
from checks import arrays, central_difference, close
from test_sparsemax import by_row
from tools import run_with_gradients, to_numpy
from weight_laws import WeightLaws, products, softmax

from keras_quasiattn import layers, ops


def bisected(z, alpha):
    """Compute one row by Peters et al. 2019, algorithm 1, to the last bit of float64."""
    if alpha == 1:
        return softmax(z, np.full(z.shape, True))
    x = (alpha - 1) * z
    low, high = x.max() - 1, x.max()
    for _ in range(200):
        middle = (low + high) / 2
        total = (np.maximum(x - middle, 0) ** (1 / (alpha - 1))).sum()
        low, high = (middle, high) if total >= 1 else (low, middle)
    weights = np.maximum(x - low, 0) ** (1 / (alpha - 1))
    return weights / weights.sum()


class TestEntmax(WeightLaws):
    op = staticmethod(ops.entmax_attention)
    layer = layers.MultiHeadEntmax
    options = tuple({"scale": 0.7, "alpha": alpha} for alpha in (1.5, 1.2, 2, 1, 3))

    def weights(self, query, key, seen, bias, *, scale=1.0, alpha=1.5):
        return by_row(lambda z: bisected(z, alpha), products(query, key, scale) + bias, seen)


class TestEntmaxWithAnAlphaOfEachHead(WeightLaws):
    op = staticmethod(ops.entmax_attention)
    layer = layers.MultiHeadEntmax
    options = ({"scale": 3.0},)

    def tensors(self, size):
        return {"alpha": np.array([1.1, 1.5, 2.6])[:, None, None]}

    def weights(self, query, key, seen, bias, *, alpha, scale=1.0):
        e = products(query, key, scale) + bias
        heads = [
            by_row(lambda z, a=float(a): bisected(z, a), e[:, n], seen[:, n])
            for n, a in enumerate(np.ravel(alpha))
        ]
        return np.stack(heads, 1)


def test_the_example_of_the_entmax_package():
    # Printed in the README of the package that Peters et al. published.
    z = np.array([-2, 0, 0.5])
    np.testing.assert_allclose(to_numpy(ops.entmax(z)), [0, 0.3260, 0.6740], atol=5e-5)
    np.testing.assert_allclose(
        to_numpy(ops.entmax(z, alpha=1)), [0.0486, 0.3592, 0.5922], atol=5e-5
    )


@pytest.mark.parametrize("length", [1, 3, 64, 1024])
def test_long_flat_and_steep_rows_sum_to_1(length):
    random = np.random.default_rng(0)
    for alpha in (1.01, 1.2, 1.5, 1.50001, 1.8, 1.99):
        for scale in (0.0, 0.1, 1.0, 100.0):
            z = scale * random.normal(size=(20, length))
            exact = to_numpy(ops.entmax(z, alpha=alpha))
            np.testing.assert_allclose(exact.sum(-1), 1, rtol=1e-10)
            rounded = to_numpy(ops.entmax(z.astype("float32"), alpha=alpha))
            np.testing.assert_allclose(rounded, exact, atol=3e-5)


def test_a_learned_alpha_is_one_of_each_head_and_starts_at_one_and_a_half():
    x = arrays((5, 5, 6), leading=(2,))[0]
    learned = layers.MultiHeadEntmax(2, 3, alpha="learned", dtype="float64")
    fixed = layers.MultiHeadEntmax(2, 3, dtype="float64")
    fixed.build(x.shape, x.shape)
    learned.build(x.shape, x.shape)
    logits, *projections = learned.weights
    assert tuple(logits.shape) == (2, 1, 1) and logits.name == "alpha_logit"
    fixed.set_weights([to_numpy(one) for one in projections])
    np.testing.assert_allclose(to_numpy(learned(x, x)), to_numpy(fixed(x, x)), atol=1e-12)
    logits.assign([[[-4.0]], [[4.0]]])
    _, weights = learned(x, x, return_attention_scores=True)
    z = np.random.default_rng(0).normal(size=(4, 9))
    cotangent = np.random.default_rng(1).normal(size=(4, 9))
    (expected,) = central_difference(
        lambda a: np.stack([bisected(row, float(a)) for row in z]), [np.array(1.37)], cotangent
    )
    _, (_, got) = run_with_gradients(
        lambda x, a: [ops.entmax(x, alpha=a)], [z, np.array(1.37)], [cotangent]
    )
    np.testing.assert_allclose(got, expected, rtol=1e-5)
    assert (to_numpy(weights)[:, 0] > 0).all()


def test_alpha_is_1_or_from_a_little_above():
    for alpha in (0.5, 1.001, float("inf"), float("nan")):
        with pytest.raises(
            ValueError,
            match="`alpha` must be (1, or )?a finite number",
        ):
            layers.MultiHeadEntmax(2, 4, alpha=alpha)
        with pytest.raises(
            ValueError, match="`alpha` must be 1, or a finite number of at least 1.01"
        ):
            ops.entmax(np.zeros(3), alpha=alpha)
    with pytest.raises(
        ValueError, match="`alpha` must be a finite number or 'learned'.*alpha='large'"
    ):
        layers.MultiHeadEntmax(2, 4, alpha="large")
    with pytest.raises(ValueError, match="`mask` must be boolean"):
        ops.entmax(np.zeros(3), mask=np.ones(3))
    close(to_numpy(ops.entmax(np.zeros(4))), np.full(4, 0.25))


@pytest.mark.parametrize("alpha", [1, 3])
def test_a_number_of_numpy_was_taken_for_a_tensor_of_at_most_2(alpha):
    scores, number = np.array([0.3, 0.1, -0.2]), np.float32(alpha)
    expected = to_numpy(ops.entmax(scores, alpha=alpha))
    np.testing.assert_array_equal(to_numpy(ops.entmax(scores, alpha=number)), expected)
    layer = layers.MultiHeadEntmax(2, 4, alpha=number)
    found = layer.options.weights(keras.ops.convert_to_tensor(scores), None, {})
    np.testing.assert_array_equal(to_numpy(found), expected)
    assert type(layer.get_config()["alpha"]) is float


EVERY_ALPHA = [1, 1.01, 1.25, 1.5, 1.75, 2, 2.5, 4, np.array([1.3]), np.array([3.0])]


@pytest.mark.parametrize("alpha", EVERY_ALPHA, ids=str)
def test_nan_and_infinity_came_out_as_zeros(alpha):
    for bad in (np.nan, np.inf):
        for dtype in ("float32", "float64"):
            z = np.array([[bad, 0, 1], [0.5, 0, 1]], dtype)
            weights = to_numpy(ops.entmax(z, alpha=alpha))
            assert np.isnan(weights[0, 0])
            np.testing.assert_allclose(weights[1].sum(), 1, rtol=1e-5)
            hidden = to_numpy(ops.entmax(z, np.array([0, 1, 1]), alpha))
            np.testing.assert_allclose(hidden[0], hidden[1], rtol=1e-5)


@pytest.mark.parametrize("alpha", EVERY_ALPHA, ids=str)
def test_a_common_shift_was_rounded_before_it_was_subtracted(alpha):
    z = np.array([0.25, 0.125, -1.25], "float32")  # exact also after the shift
    np.testing.assert_allclose(
        to_numpy(ops.entmax(z + np.float32(1e4), alpha=alpha)),
        to_numpy(ops.entmax(z, alpha=alpha)),
        rtol=1e-6,
    )
