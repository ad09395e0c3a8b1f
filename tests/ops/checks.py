"""Inputs of odd, unequal and degenerate sizes, and comparison with plain NumPy.

Gradients are compared with differences.
"""

import numpy as np
import pytest
from tools import run_with_gradients

SIZES = [
    (5, 7, 11),
    (7, 5, 1),
    (1, 7, 3),
    (5, 1, 3),
    (1, 1, 1),
    (0, 7, 3),
    (5, 0, 3),
    (0, 0, 3),
    (17, 33, 13),
]
every_size = pytest.mark.parametrize("size", SIZES, ids=str)


def arrays(size, leading=(2, 3), value_features=4):
    length, source, features = size
    random = np.random.default_rng(0)
    return [
        0.5 * random.normal(size=(*leading, *shape))
        for shape in ((length, features), (source, features), (source, value_features))
    ]


def some_mask(size):
    """Return a mask (2, 1, T, S) with an empty row, an empty column and an empty example."""
    mask = np.random.default_rng(1).random((2, 1, *size[:2])) > 0.4
    mask[0, :, :1] = False
    mask[0, :, :, -1:] = False
    mask[1] = False
    return mask


def recorded_passes(monkeypatch, *calls):
    """Return a list of the passes of these calls of compiled loops, in the order of their runs."""
    made = []

    def record(call, name):
        original = getattr(call, name)

        def run(*given, **more):
            made.append(name)
            return original(*given, **more)

        monkeypatch.setattr(call, name, run)

    for call in calls:
        record(call, "forward")
        record(call, "backward")
    return made


def close(got, expected):
    np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-12)


def central_difference(function, inputs, cotangent, step=1e-6):
    gradients = []
    for index, array in enumerate(inputs):
        gradient = np.zeros_like(array)
        for position in np.ndindex(array.shape):
            moved = [x.copy() for x in inputs]
            moved[index][position] += step
            above = (function(*moved) * cotangent).sum()
            moved[index][position] -= 2 * step
            gradient[position] = (above - (function(*moved) * cotangent).sum()) / (2 * step)
        gradients.append(gradient)
    return gradients


def check_gradients(op, truth, inputs):
    cotangent = np.random.default_rng(4).normal(size=truth(*inputs).shape)
    _, gradients = run_with_gradients(lambda *x: [op(*x)], inputs, [cotangent])
    for got, expected in zip(gradients, central_difference(truth, inputs, cotangent), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-8)
