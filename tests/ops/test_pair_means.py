"""Closed-form means against direct masked means, gradients and ties included."""

import itertools

import numpy as np
import pytest
import reference
from keras import ops as keras_ops
from tools import run_with_gradients, sampled, to_numpy

from keras_quasiattn import ops
from keras_quasiattn.ops.masking import masked_mean, pair_mask
from keras_quasiattn.ops.pair_means import mean_dot_product, mean_l1

SIZES = [(5, 7, 11), (1, 7, 3), (1, 1, 1), (0, 7, 3), (5, 0, 3), (33, 17, 2)]


def direct_dot_product(x, y):
    return keras_ops.einsum("...td,...sd->...ts", x, y)


def inputs(size, ties):
    random = np.random.default_rng(0)
    if ties:
        return [random.integers(-2, 3, size=(2, n, size[2])).astype("float64") for n in size[:2]]
    return [random.normal(size=(2, n, size[2])) for n in size[:2]]


def masks(size, kind):
    if kind == "none":
        return None, None
    mask_x, mask_y = (np.random.default_rng(1).random((2, n)) > 0.4 for n in size[:2])
    if kind == "empty":
        mask_y[1] = False
    return (None, mask_y) if kind == "one" else (mask_x, mask_y)


PRODUCT = itertools.product(
    ["mean_l1", "mean_dot_product"], SIZES, ["distinct", "ties"], ["none", "one", "both", "empty"]
)


@pytest.mark.parametrize("name,size,ties,kind", sampled(PRODUCT, 24), ids=str)
def test_closed_form_is_the_direct_mean(name, size, ties, kind):
    closed, direct = {
        "mean_l1": (mean_l1, ops.pairwise_l1),
        "mean_dot_product": (mean_dot_product, direct_dot_product),
    }[name]
    given = masks(size, kind)
    cotangent = np.array([1.5, -0.5]).reshape(2, 1, 1)

    def direct_mean(x, y):
        pair = pair_mask(*(None if mask is None else keras_ops.convert_to_tensor(mask) for mask in given))
        return [masked_mean(direct(x, y), pair, (-2, -1))]

    got = run_with_gradients(lambda x, y: [closed(x, y, *given)], inputs(size, ties == "ties"), [cotangent])
    expected = run_with_gradients(direct_mean, inputs(size, ties == "ties"), [cotangent])
    for one, other in zip(got[0] + got[1], expected[0] + expected[1], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


def test_padding_content_does_not_matter():
    (x, y), (mask_x, mask_y) = inputs((5, 7, 3), False), masks((5, 7, 3), "both")
    spoiled = np.where(mask_x[..., None], x, np.nan), np.where(mask_y[..., None], y, np.inf)
    for function in (mean_l1, mean_dot_product):
        expected = to_numpy(function(*(keras_ops.convert_to_tensor(z) for z in (x, y)), mask_x, mask_y))
        got = to_numpy(function(*(keras_ops.convert_to_tensor(z) for z in spoiled), mask_x, mask_y))
        np.testing.assert_array_equal(got, expected)


def test_large_offsets_cost_no_digits():
    x, y = (z.astype("float32") for z in inputs((33, 17, 2), False))
    pair = np.ones((2, 33, 17), "bool")
    expected = reference.masked_mean(
        reference.pairwise_l1(*(z.astype("float64") for z in (x, y))), pair, (-2, -1)
    )
    shifted = (keras_ops.convert_to_tensor(z + np.float32(1024)) for z in (x, y))
    np.testing.assert_allclose(to_numpy(mean_l1(*shifted)).ravel(), expected, rtol=2e-4)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sixteen_bit_inputs_give_float32_means(dtype):
    x = keras_ops.cast(np.full((1, 400, 8), 200.0), dtype)
    assert to_numpy(mean_dot_product(x, x)).item() == 8 * 200.0**2
    np.testing.assert_allclose(to_numpy(mean_l1(x, -x)).item(), 8 * 400.0, rtol=1e-6)
