"""The mask functions one by one."""

import numpy as np
import pytest
from keras import ops as keras_ops
from tools import run_with_gradients, to_numpy

from keras_quasiattn.core import masks


def tensor(x):
    return keras_ops.convert_to_tensor(np.array(x))


def test_as_boolean_mask():
    assert masks.as_boolean_mask(None, "mask") is None
    for dtype in ("bool", "int32", "uint8", "int64"):
        result = to_numpy(masks.as_boolean_mask(np.array([1, 0], dtype), "mask"))
        assert result.dtype == "bool" and result.tolist() == [True, False]
    assert to_numpy(masks.as_boolean_mask([1, 0], "mask")).tolist() == [True, False]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_float_masks_are_refused(dtype):
    with pytest.raises(ValueError, match=f"`key_mask` must be boolean.*dtype {dtype}"):
        masks.check_mask(np.ones(3, dtype), "key_mask")


def test_combine_masks_broadcasts_and_skips_none():
    assert masks.combine_masks(None, None) is None
    rows, columns = tensor([[True], [False]]), tensor([[True, False, True]])
    combined = to_numpy(masks.combine_masks(None, rows, None, columns))
    assert combined.tolist() == [[True, False, True], [False] * 3]


@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (1, 1), (0, 4), (4, 0)], ids=str)
def test_causal_and_window_masks(shape):
    rows, columns = np.indices(shape)
    np.testing.assert_array_equal(to_numpy(masks.causal_mask(*shape)), columns <= rows)
    np.testing.assert_array_equal(
        to_numpy(masks.sliding_window_mask(*shape, 2)), abs(rows - columns) < 2
    )


def test_pair_mask():
    a, b = np.array([[True, False]]), np.array([[True, True, False]])
    expected = a[:, :, None] & b[:, None]
    np.testing.assert_array_equal(to_numpy(masks.pair_mask(tensor(a), tensor(b))), expected)
    assert masks.pair_mask(None, None) is None
    assert tuple(masks.pair_mask(tensor(a), None).shape) == (1, 2, 1)
    assert tuple(masks.pair_mask(None, tensor(b)).shape) == (1, 1, 3)


@pytest.mark.filterwarnings("error:You are using a softmax")
def test_keras_warned_of_the_softmax_over_a_single_key():
    scores, mask = np.array([[5.0], [-5.0]]), tensor([[True], [False]])
    (all_, shown), (gradient,) = run_with_gradients(
        lambda x: [masks.masked_softmax(x, None), masks.masked_softmax(x, mask)],
        [scores],
        [np.full((2, 1), 3.0)] * 2,
    )
    np.testing.assert_array_equal(all_, [[1], [1]])
    np.testing.assert_array_equal(shown, [[1], [0]])
    np.testing.assert_array_equal(gradient, [[0], [0]])


@pytest.mark.parametrize("content", [np.nan, np.inf, -np.inf])
def test_zero_masked_clears_anything_and_stops_its_gradient(content):
    x, mask = np.array([[1.0, content], [content, 4.0]]), np.eye(2, dtype="bool")
    (result,), (gradient,) = run_with_gradients(
        lambda x: [masks.zero_masked(x, tensor(mask))], [x], [np.full((2, 2), 3.0)]
    )
    np.testing.assert_array_equal(result, [[1, 0], [0, 4]])
    np.testing.assert_array_equal(gradient, 3 * np.eye(2))
    padded = masks.zero_padding(tensor(x), tensor([False, True]))
    np.testing.assert_array_equal(to_numpy(padded)[0], [0, 0])
    assert masks.zero_masked(x, None) is x and masks.zero_padding(x, None) is x


def test_masked_mean():
    x, mask = np.arange(12.0).reshape(2, 2, 3), np.zeros((2, 2, 3), "bool")
    mask[0, 0, :2] = mask[0, 1, 2] = True
    per_row = to_numpy(masks.masked_mean(tensor(x), tensor(mask), -1))
    np.testing.assert_array_equal(per_row, [[[0.5], [5.0]], [[0.0], [0.0]]])
    overall = to_numpy(masks.masked_mean(tensor(x), tensor(mask), (-2, -1)))
    np.testing.assert_array_equal(overall, [[[2.0]], [[0.0]]])
    np.testing.assert_array_equal(
        to_numpy(masks.masked_mean(tensor(x), None, -1)), x.mean(-1, keepdims=True)
    )
    columns = to_numpy(
        masks.masked_mean(tensor(x), tensor(mask[:, :1]), (-2, -1))
    )  # broadcasts to x
    np.testing.assert_array_equal(columns, [[[2.0]], [[0.0]]])
