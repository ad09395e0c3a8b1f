"""The two signatures, on a minimal task: a text's ids are its bytes, an answer is their sum."""

import numpy as np
import pytest
import tensorflow as tf

from keras_quasiattn.lab.serving.signatures import (
    STRINGS,
    TOKEN_IDS,
    example_inputs,
    signature_functions,
)
from keras_quasiattn.lab.tasks import ServingSignature


def bytes_of(texts):
    return tf.cast(tf.strings.unicode_decode(texts, "UTF-8"), tf.int32)


def answer_ids(question, candidates):
    return {
        "sum": tf.reduce_sum(question, -1),
        "sums": tf.reduce_sum(candidates, -1),
        "ids": question,
    }


def answer(question, candidates):
    flat = tf.reduce_sum(bytes_of(tf.reshape(candidates, (-1,))), -1)
    return {
        "sum": tf.reduce_sum(bytes_of(question), -1),
        "sums": tf.reshape(flat, tf.shape(candidates)),
    }


SIGNATURE = ServingSignature(
    function=answer,
    input_signature=[
        tf.TensorSpec((None,), tf.string, name="question"),
        tf.TensorSpec((None, None), tf.string, name="candidates"),
    ],
    resources=[],
    tokenize=bytes_of,
    answer_ids=answer_ids,
    columns=lambda text: [text.split("\t")[0], text.split("\t")[1:]],
)


@pytest.fixture(scope="module")
def functions():
    return signature_functions(SIGNATURE)


def ask(function, inputs):
    return {
        name: value.numpy() for name, value in function(*map(tf.constant, inputs.values())).items()
    }


def test_an_example_has_the_same_answer_both_ways(functions):
    inputs = example_inputs(SIGNATURE, "abc\tb\tefg")
    assert inputs[STRINGS]["candidates"].tolist() == [[b"b", b"efg"]]
    ids = inputs[TOKEN_IDS]
    assert {name: value.dtype.name for name, value in ids.items()} == dict.fromkeys(ids, "int32")
    assert ids["candidates_ids"].tolist() == [[[98, 0, 0], [101, 102, 103]]]
    assert ids["candidates_lengths"].tolist() == [[1, 3]]
    assert ids["question_lengths"].tolist() == [3]
    texts, numbers = (ask(functions[name], inputs[name]) for name in (STRINGS, TOKEN_IDS))
    assert texts["sum"] == numbers["sum"] == [97 + 98 + 99]
    np.testing.assert_array_equal(texts["sums"], [[98, 306]])
    np.testing.assert_array_equal(numbers["sums"], texts["sums"])


def token_ids(lengths, ids, candidates=None):
    rows = len(ids)
    candidates = np.ones((rows, 2, 1), np.int32) if candidates is None else candidates
    return {
        "question_ids": np.array(ids, np.int32),
        "question_lengths": np.array(lengths, np.int32),
        "candidates_ids": candidates,
        "candidates_lengths": np.ones(candidates.shape[:2], np.int32),
    }


def test_nothing_behind_a_length_matters_and_any_length_has_an_answer(functions):
    got = ask(functions[TOKEN_IDS], token_ids([2, 0, -7, 99], [[5, 6, 7]] * 4))
    assert got["ids"].tolist() == [[5, 6, 0], [0, 0, 0], [0, 0, 0], [5, 6, 7]]


def test_texts_without_a_place_get_one(functions):
    inputs = token_ids([0, 3], np.zeros((2, 0)), np.zeros((2, 3, 0), np.int32))
    got = ask(functions[TOKEN_IDS], inputs)
    assert got["ids"].tolist() == [[0], [0]] and got["sums"].tolist() == [[0, 0, 0]] * 2
    assert ask(functions[TOKEN_IDS], token_ids(np.zeros((0,)), np.zeros((0, 4))))["ids"].shape == (
        0,
        4,
    )


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (token_ids([1], [[5, 6]] * 2), "question_lengths and question_ids must have the"),
        (
            {**token_ids([1], [[5]]), "candidates_lengths": np.ones((1, 3), np.int32)},
            "candidates_lengths must have one number for each text of candidates_ids",
        ),
        (
            token_ids([1], [[5]], np.ones((2, 1, 1), np.int32)),
            "candidates_ids and question_ids must have the same number",
        ),
        (
            token_ids([[1]], [[5]]),
            r"Shape of tensor .* \[1,1\] is not compatible with expected shape \[\?\]",
        ),
    ],
)
def test_inputs_that_disagree_are_refused(inputs, message):
    # Without its input signature, as on a server: a graph does not check shapes.
    function = tf.function(signature_functions(SIGNATURE)[TOKEN_IDS].python_function)
    graph = function.get_concrete_function(*(tf.TensorSpec(None, tf.int32) for _ in inputs))
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        graph(*map(tf.constant, inputs.values()))
