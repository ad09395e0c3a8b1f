"""Sequences of unequal length become a padded batch with the mask that layers take."""

import keras
import numpy as np
import pytest
from keras import ops as keras_ops
from tools import to_numpy

from keras_quasiattn.layers import MultiHeadCoDA
from keras_quasiattn.ops import from_ragged

RANDOM = np.random.default_rng(0)
LENGTHS = (3, 0, 5, 1)
VECTORS = [RANDOM.normal(size=(length, 2)).astype("float32") for length in LENGTHS]


@pytest.mark.parametrize("lengths", [LENGTHS, (0,), (1,), (0, 1), (2, 2)], ids=str)
@pytest.mark.parametrize("kind", ["lists", "arrays", "tensors", "ragged"])
@pytest.mark.parametrize("features", [(), (2,)], ids=str)
def test_padding_and_mask_are_those_of_the_lengths(lengths, kind, features, request):
    rows = [RANDOM.integers(1, 9, size=(length, *features)) for length in lengths]
    given = rows
    if kind == "lists":
        given = [row.tolist() for row in rows]
    elif kind == "tensors":
        given = [keras_ops.convert_to_tensor(row) for row in rows]
    elif kind == "ragged":
        request.getfixturevalue("tensorflow_only")
        import tensorflow as tf

        values = np.concatenate(rows).astype("int32")
        given = tf.RaggedTensor.from_row_lengths(values, lengths)
    padded, mask = from_ragged(given)
    inner = features if sum(lengths) or kind != "lists" else ()  # empty lists have no features
    expected = np.zeros((len(lengths), max(lengths), *inner), "int32")
    for row, one in zip(expected, rows, strict=True):
        row[: len(one)] = one if len(one) else 0
    assert keras.backend.standardize_dtype(padded.dtype) == "int32"
    np.testing.assert_array_equal(to_numpy(padded), expected)
    np.testing.assert_array_equal(
        to_numpy(mask), np.arange(max(lengths)) < np.array(lengths)[:, None]
    )


def test_a_layer_answers_each_sequence_as_it_does_alone():
    layer = MultiHeadCoDA(num_heads=2, key_dim=2)
    padded, mask = from_ragged(VECTORS)
    assert keras.backend.standardize_dtype(padded.dtype) == "float32"
    together = to_numpy(layer(padded, padded, query_mask=mask, value_mask=mask))
    for row, one in zip(together, VECTORS, strict=True):
        if len(one):
            alone = to_numpy(layer(one[None], one[None]))[0]
            np.testing.assert_allclose(row[: len(one)], alone, atol=1e-5)
        assert not row[len(one) :].any()


def test_in_a_pipeline(tensorflow_only):
    import tensorflow as tf

    ragged = tf.RaggedTensor.from_row_lengths(np.concatenate(VECTORS), LENGTHS)
    (batch,) = tf.data.Dataset.from_tensors(ragged).map(from_ragged)
    for got, expected in zip(batch, from_ragged(VECTORS), strict=True):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize(
    "sequences,said",
    [
        ([], "must hold at least one sequence. Received: none"),
        ([[1, 2], [[3]]], r"differ only in L. Received: shapes \[\(2,\), \(1, 1\)\]"),
        ([VECTORS[0], np.ones((1, 3))], r"with the same D.*\[\(3, 2\), \(1, 3\)\]"),
        ([np.ones((1, 2, 2))], r"ids \(L,\) or vectors"),
        ([1, 2], r"Received: shapes \[\(\), \(\)\]"),
        ([[2**32 + 5], [1]], "to 2147483647, which become int32.*4294967301"),  # was 5
        ([[1, -(2**63)]], "from -2147483648 to.*Received: -9223372036854775808"),  # was 0
        (["ab", "c"], "must hold sequences of integers or floats.*Received: 'ab'"),
        ([[[1], [2, 3]]], r"must hold sequences of integers or floats.*\[\[1\], \[2, 3\]\]"),
    ],
)
def test_what_is_no_list_of_sequences_is_one_clear_line(sequences, said):
    with pytest.raises(ValueError, match=said) as caught:
        from_ragged(sequences)
    assert "\n" not in str(caught.value)


def test_the_lowest_int32_was_refused():
    assert to_numpy(from_ragged([[-(2**31), 2**31 - 1]])[0]).tolist() == [[-(2**31), 2**31 - 1]]


def test_signed_and_unsigned_ids_became_floats():
    """NumPy's common dtype of int64 and uint64 is float64."""
    padded, _ = from_ragged([np.array([5, 3]), np.array([2], "uint64")])
    assert to_numpy(padded).dtype == "int32"
    assert to_numpy(padded).tolist() == [[5, 3], [2, 0]]


def test_bfloat16_was_refused_and_empty_vectors_became_integers():
    padded, _ = from_ragged([keras_ops.ones((2, 3), "bfloat16")])
    assert to_numpy(padded).tolist() == [[[1.0] * 3] * 2]
    for given in ([np.zeros((0, 3), "float32")], [keras_ops.zeros((0, 3), "bfloat16")]):
        padded, mask = from_ragged(given)
        assert to_numpy(padded).dtype == "float32"
        assert (tuple(padded.shape), tuple(mask.shape)) == ((1, 0, 3), (1, 0))


def test_a_tensor_with_two_ragged_axes_is_refused(tensorflow_only):
    import tensorflow as tf

    with pytest.raises(ValueError, match=r"ragged only in their length.*ragged_rank=2"):
        from_ragged(tf.ragged.constant([[[1], [2, 3]]]))
