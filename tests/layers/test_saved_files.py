"""Models saved by an earlier version load and give the same outputs.

Commit 8e497b7 wrote `saved/` before `ops` was split into packages. It holds two functional models
of layers of every kind, with weights, and arrays of their inputs and outputs.
"""

from pathlib import Path

import keras
import numpy as np
import pytest
from tools import to_numpy

import keras_quasiattn.layers
import keras_quasiattn.models  # noqa: F401 (both register what they define)

SAVED = Path(__file__).with_name("saved")


@pytest.mark.parametrize(
    ("name", "inputs"), [("layers", ("a", "b")), ("transformer", ("source", "target"))]
)
def test_a_model_of_an_earlier_version_answers_as_it_did(name, inputs):
    model = keras.saving.load_model(SAVED / f"{name}.keras")
    with np.load(SAVED / f"{name}.npz") as arrays:
        given = {one: arrays[one] for one in inputs}
        expected = [arrays[one] for one in arrays.files if one not in inputs]
    outputs = model(given if name == "transformer" else list(given.values()))
    outputs = outputs if isinstance(outputs, (list, tuple)) else [outputs]
    for got, then in zip(outputs, expected, strict=True):
        np.testing.assert_allclose(to_numpy(got), then, rtol=1e-4, atol=1e-5)
