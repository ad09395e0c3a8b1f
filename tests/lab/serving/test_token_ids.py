"""Every task gives the same answers for ids as for strings.

A server that joins requests into a batch does not change any answer.
"""

import numpy as np
import pytest
import tensorflow as tf
from test_signatures import ask
from tiny import prepared

from keras_quasiattn.lab.serving.signatures import (
    STRINGS,
    TOKEN_IDS,
    example_inputs,
    signature_functions,
)
from keras_quasiattn.lab.training.strategy import dtype_policy

INPUTS = {
    "mlu": ["x=1,y=-2,x-y", "y=19,x=-20,y+y", ""],
    "classify": ["who was the man", "where ?", ""],
    "pairs": ["the big cat\ta cat ran", "owl\tthe old dog is a dog", "\t"],
    "rank": ["the cat\ta dog\tthe cat saw it", "big owl\towl\tan old hen", "fox\tthe fox"],
}


MODELS = {"mlu": "coda", "classify": "bilstm_gated"}


def joined(requests):
    """Join requests as TensorFlow Serving does, which pads each with its own first element."""
    batch = {}
    for name in requests[0]:
        arrays = [request[name] for request in requests]
        largest = np.max([array.shape for array in arrays], axis=0)
        padded = [
            np.pad(
                array,
                [
                    (0, 0),
                    *(
                        (0, wide - own)
                        for wide, own in zip(largest[1:], array.shape[1:], strict=True)
                    ),
                ],
                constant_values=array.flat[0],
            )
            for array in arrays
        ]
        batch[name] = np.concatenate(padded)
    return batch


def assert_alike(got, expected):
    if expected.dtype == object:
        np.testing.assert_array_equal(got, expected)
    else:
        np.testing.assert_allclose(got, expected, atol=2e-6, rtol=2e-6)


@pytest.mark.parametrize("name", INPUTS)
def test_ids_are_answered_as_strings_are(name, tiny_task):
    task = prepared(tiny_task(name, MODELS.get(name, "")))
    signature = task.serving_signature(task.build_model())
    functions = signature_functions(signature)
    requests, answers = [], []
    for text in INPUTS[name]:
        inputs = example_inputs(signature, text)
        by_string, by_ids = (ask(functions[key], inputs[key]) for key in (STRINGS, TOKEN_IDS))
        assert by_ids and by_ids.keys() <= by_string.keys()
        assert not {"tokens", "first_tokens", "ranked"} & by_ids.keys()
        for key, value in by_ids.items():
            assert_alike(value, by_string[key])
        # A server cannot pad an empty tensor, so a text without ids has one position.
        requests.append({
            key: np.zeros((*value.shape[:-1], 1), value.dtype) if 0 in value.shape else value
            for key, value in inputs[TOKEN_IDS].items()
        })  # fmt: skip
        answers.append(by_ids)

    together = ask(functions[TOKEN_IDS], joined(requests))
    for row, answer in enumerate(answers):
        if "places" in answer:  # a client leaves out what the server appended, which may rank high
            sent = together["places"][row] < answer["places"].shape[1]
            for key, value in answer.items():
                assert_alike(together[key][row][sent], value[0])
            continue
        for key, value in answer.items():
            part = together[key][(slice(row, row + 1), *(slice(size) for size in value.shape[1:]))]
            assert_alike(part, value)

    for inputs in (strange(requests[0]), longer(requests[0])):
        for key, value in ask(functions[TOKEN_IDS], inputs).items():
            assert value.dtype == object or np.all(np.isfinite(value)), key


def strange(request):
    """Return ids that belong to no token."""
    return {
        key: value
        if key.endswith("_lengths")
        else np.where(value % 2 == 0, 2**30, -3).astype(np.int32)
        for key, value in request.items()
    }


def longer(request):
    """Return more ids than any model reads."""
    return {
        key: value + 500
        if key.endswith("_lengths")
        else np.pad(value, [(0, 0)] * (value.ndim - 1) + [(0, 500)])
        for key, value in request.items()
    }


def test_candidates_without_ids_come_last(tiny_task):
    task = prepared(tiny_task("rank"))
    signature = task.serving_signature(task.build_model())
    function = signature_functions(signature)[TOKEN_IDS]
    inputs = example_inputs(signature, "the cat\ta dog\tbig owl\tthe cat")[TOKEN_IDS]
    inputs["candidates_lengths"][0, 1] = 0
    got = ask(function, inputs)
    assert (
        got["places"][0, 2] == 1 and got["scores"][0, 2] == 0 and np.all(got["scores"][0, :2] > 0)
    )


@pytest.mark.parametrize("name", ["translate", "programs"])
def test_ids_of_a_text_that_was_cut_had_no_end(name, tiny_task):
    task = prepared(tiny_task(name))
    longest = task._longest_source
    text = tf.constant(["a dog sees " * longest])
    whole = tf.cast(task.tokenizer.tokenize(text, 10 * longest), tf.int32)
    assert whole.shape[1] > longest
    functions = signature_functions(task.serving_signature(task.build_model()))
    expected = functions[STRINGS](text)
    for key, value in functions[TOKEN_IDS](whole, tf.constant([whole.shape[1]])).items():
        assert_alike(value.numpy(), expected[key].numpy())


@pytest.mark.parametrize("name", ["translate", "programs"])
def test_an_empty_batch_was_an_error_for_models_that_search(name, tiny_task):
    task = prepared(tiny_task(name))
    signature = task.serving_signature(task.build_model())
    for key, function in signature_functions(signature).items():
        inputs = example_inputs(signature, task.example)[key]
        answer = ask(function, {given: value[:0] for given, value in inputs.items()})
        assert answer and all(len(value) == 0 for value in answer.values())


def test_no_questions_or_passages_were_an_error_for_readers(tiny_task):
    task = prepared(tiny_task("read", "attention_flow"))
    function = signature_functions(task.serving_signature(task.build_model()))[STRINGS]
    answer = function(tf.constant(["who"]), tf.zeros((1, 0), tf.string))
    assert {name: value.numpy().tolist() for name, value in answer.items()} == {
        "answer": [b""], "score": [0.0], "passage": [0], "start": [0], "end": [0]
    }  # fmt: skip
    answer = function(tf.constant([], tf.string), tf.constant([[]], tf.string)[:0])
    assert all(len(value) == 0 for value in answer.values())


def test_outputs_of_16_bits_could_not_be_written_as_json(tiny_task):
    with dtype_policy("mixed_bfloat16"):
        task = prepared(tiny_task("classify", "bilstm_soft"))
        signature = task.serving_signature(task.build_model())
        functions = signature_functions(signature)
        inputs = example_inputs(signature, task.example)
        answers = {key: functions[key](*inputs[key].values()) for key in functions}
    assert answers[TOKEN_IDS]["weights"].dtype == answers[STRINGS]["weights"].dtype == tf.float32
