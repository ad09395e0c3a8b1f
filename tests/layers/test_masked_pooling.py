"""Results of MaskedPooling."""

import keras
import numpy as np
import pytest
from tools import run_with_gradients, to_numpy

from keras_quasiattn.layers import CoDA, MaskedPooling

X = np.array([[[1.0, -2.0], [3.0, -8.0], [7.0, 5.0]]], "float32")
MASK = np.array([[True, True, False]])


@pytest.mark.parametrize("mode,expected", [("mean", [2, -5]), ("sum", [4, -10]), ("max", [3, -2])])
def test_modes(mode, expected):
    layer = MaskedPooling(mode)
    np.testing.assert_array_equal(to_numpy(layer(X, mask=MASK)), [expected])
    np.testing.assert_array_equal(to_numpy(layer(X)), [getattr(X[0], mode)(axis=0)])


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_the_maximum_has_no_floor(dtype):
    x = np.full((1, 2, 1), -1e6, "float32")
    pooled = to_numpy(MaskedPooling("max", dtype=dtype)(x)).astype("float32")
    np.testing.assert_allclose(pooled, [[-1e6]], rtol=2**-8)


def test_gradient_of_the_maximum_goes_to_the_largest_real_position():
    def function(x):
        return [MaskedPooling("max")(x, mask=MASK)]

    _, (gradient,) = run_with_gradients(function, [X], [np.ones((1, 2))])
    np.testing.assert_array_equal(gradient, [[[0, 1], [1, 0], [0, 0]]])


def test_integers_are_not_rounded_back():
    counts = np.array([[[1], [2]]])
    np.testing.assert_array_equal(to_numpy(MaskedPooling()(counts)), [[1.5]])
    a_out, b_out = CoDA(kernel_initializer="ones")([counts, counts])
    for output in (a_out, b_out):
        assert keras.backend.standardize_dtype(output.dtype) == "float32"


def test_wrong_shapes_are_named():
    with pytest.raises(ValueError, match=r"`inputs` must have shape.*\(3, 5\)"):
        MaskedPooling()(np.ones((3, 5), "float32"))
