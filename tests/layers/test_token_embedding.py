import keras
import numpy as np
import pytest
from keras import ops
from tools import to_numpy

from keras_quasiattn.layers import TokenEmbedding


@pytest.mark.parametrize("policy", ["float32", "mixed_float16"])
def test_one_table_both_ways(policy):
    layer = TokenEmbedding(7, 4, dtype=policy)
    ids = np.array([[1, 6, 0]], "int32")
    vectors = layer(ids)
    (table,) = layer.get_weights()
    np.testing.assert_allclose(ops.convert_to_numpy(vectors), 2 * table[ids], atol=2e-3)
    logits = layer(vectors, reverse=True)
    assert keras.backend.standardize_dtype(logits.dtype) == "float32"
    want = ops.convert_to_numpy(vectors).astype("float32") @ table.T
    np.testing.assert_allclose(
        ops.convert_to_numpy(logits), want, atol=1e-6 if policy == "float32" else 1e-3
    )


def test_symbolic_types_are_the_real_ones():
    layer = TokenEmbedding(7, 4, dtype="mixed_bfloat16")
    vectors = layer(keras.Input((None,), dtype="int32"))
    logits = layer(vectors, reverse=True)
    assert (vectors.shape, vectors.dtype) == ((None, None, 4), "bfloat16")
    assert (logits.shape, logits.dtype) == ((None, None, 7), "float32")


def test_mask_zero_was_taken_and_had_no_effect():
    layer = TokenEmbedding(5, 3, mask_zero=True)
    vectors = layer(np.array([[2, 0, 1]]))
    for tensor in (vectors, layer(vectors, reverse=True)):
        assert ops.convert_to_numpy(tensor._keras_mask).tolist() == [[True, False, True]]
    ids = ops.convert_to_tensor(np.array([[2, 0, 1]]))
    ids._keras_mask = ops.convert_to_tensor(np.array([[True, True, False]]))
    assert ops.convert_to_numpy(layer(ids)._keras_mask).tolist() == [[True, True, False]]


@pytest.mark.parametrize("mode,accuracy", [("int8", 0.03), ("int4", 0.5)])
def test_a_quantized_table_was_not_scaled_or_stayed_as_it_was(mode, accuracy):
    layer = TokenEmbedding(7, 4, dtype="mixed_bfloat16")
    ids = np.array([[1, 6, 0]], "int32")
    vectors = ops.cast(layer(ids), "float32")
    logits = layer(vectors, reverse=True)
    layer.quantize(mode)
    assert layer.quantization_mode == mode
    again = to_numpy(ops.cast(layer(ids), "float32"))
    np.testing.assert_allclose(again, to_numpy(vectors), atol=accuracy)
    again = layer(vectors, reverse=True)
    assert keras.backend.standardize_dtype(again.dtype) == "float32"
    np.testing.assert_allclose(to_numpy(again), to_numpy(logits), atol=accuracy)
