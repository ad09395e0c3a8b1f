"""tf2onnx left ops such as Erfc, of a GELU that is not approximated, in files that never loaded."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from keras_quasiattn.errors import UserError
from keras_quasiattn.layers import MultiHeadEntmax, MultiHeadSparsemax
from keras_quasiattn.serving.runtimes import convert_model, need_runtime

for package in ("onnx", "tf2onnx", "onnxruntime"):
    pytest.importorskip(package, reason="extra onnx is not installed")

# On both sides of 0, near 0, where 1 + x rounds to 1, and far from 0.
NUMBERS = np.array([[-30.0, -3.0, -0.5, -1e-9, 0.0, 1e-9, 1e-3, 0.5, 3.0, 30.0]], "float32")


def elementwise(function: Callable[[Any], Any]) -> keras.Model:
    inputs = keras.Input((None,))
    return keras.Model(inputs, function(inputs))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: keras.activations.gelu(x, approximate=False),
        keras.activations.celu,
        ops.erfc,
        ops.expm1,
        lambda x: ops.log1p(ops.abs(x)),
        lambda x: ops.logaddexp(x, 0.5 * x),
    ],
    ids=["gelu", "celu", "erfc", "expm1", "log1p", "logaddexp"],
)
def test_onnx_has_a_formula_for_what_tf2onnx_lacks(function, tmp_path):
    import onnxruntime

    model = elementwise(function)
    batch = {model.inputs[0].name: NUMBERS}
    assert convert_model(model, need_runtime("onnx"), tmp_path, [batch]) < 1e-6
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"))
    (got,) = session.run(["logits"], batch)
    np.testing.assert_allclose(got, model(NUMBERS), rtol=1e-4, atol=1e-7)
    small = np.abs(NUMBERS) < 1e-2
    if np.abs(model(NUMBERS)[small]).max() < 0.1:  # a function that is 0 at 0: no digit is lost
        np.testing.assert_allclose(got[small], np.asarray(model(NUMBERS))[small], rtol=1e-5)


@pytest.mark.parametrize("inside", [False, True], ids=["alone", "in a loop"])
def test_an_op_without_a_formula_is_named(inside, tmp_path):
    def loop(x: Any) -> Any:
        return ops.while_loop(lambda y: ops.max(y) < 0.9, lambda y: (y + ops.i0(y),), [x])[0]

    model = elementwise(loop if inside else ops.i0)
    batch = {model.inputs[0].name: np.full((1, 3), 0.5, "float32")}
    with pytest.raises(
        UserError,
        match="^ONNX Runtime cannot convert this model: tf2onnx cannot convert .*BesselI0",
    ):
        convert_model(model, need_runtime("onnx"), tmp_path, [batch])


def test_a_text_of_padding_alone_was_nan_under_sparse_weights(tmp_path):
    """In a `where` of a NaN that was not chosen, of which tf2onnx makes a sum of products."""
    x = keras.Input((None, 4))
    masks = dict.fromkeys(("query_mask", "value_mask"), ops.any(ops.not_equal(x, 0.0), axis=-1))
    parts = [kind(2, 2)(x, x, **masks) for kind in (MultiHeadSparsemax, MultiHeadEntmax)]
    model = keras.Model(x, ops.concatenate(parts, axis=-1))
    batch = np.random.default_rng(0).normal(size=(2, 3, 4)).astype("float32")
    batch[0, 2], batch[1] = 0, 0
    inputs = {model.inputs[0].name: batch}
    assert convert_model(model, need_runtime("onnx"), tmp_path, [inputs]) < 1e-5
