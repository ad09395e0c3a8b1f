"""The server's double parses JSON tensors as TensorFlow Serving's json_tensor.cc does.

The error messages are copied from that source, not observed on a real server.
"""

import sys
from typing import Any

import pytest
import tensorflow as tf
import tiny_mlu

sys.path.insert(0, str(tiny_mlu.ROOT / "benchmarks" / "serving"))
from json_tensors import tensors_of

RANK = {
    "question": tf.TensorSpec((None,), tf.string),
    "candidates": tf.TensorSpec((None, None), tf.string),
}
IDS = {"ids": tf.TensorSpec((None, None), tf.int32)}
TEXT = {"text": tf.TensorSpec((None,), tf.string)}


def row(*candidates: str) -> dict[str, Any]:
    return {"question": "q", "candidates": list(candidates)}


@pytest.mark.parametrize(
    "request_",
    [
        {"instances": [row("a", "b"), row("c", "")]},
        {"inputs": {"question": ["q", "q"], "candidates": [["a", "b"], ["c", ""]], "x": 1}},
    ],
)
def test_rows_and_columns_of_equal_lists(request_):
    made = tensors_of(request_, RANK)
    assert made["question"].tolist() == [b"q", b"q"]
    assert made["candidates"].tolist() == [[b"a", b"b"], [b"c", b""]]


@pytest.mark.parametrize(
    ("request_", "specs", "expected"),
    [
        ({"instances": ["a", {"b64": "Yg=="}]}, TEXT, [b"a", b"b"]),
        ({"inputs": ["a"]}, TEXT, [b"a"]),
        ({"instances": [{"text": {"b64": "/w=="}}]}, TEXT, [b"\xff"]),
        ({"instances": [[1, 2], [3, 4]]}, IDS, [[1, 2], [3, 4]]),
        ({"inputs": [[]]}, IDS, [[]]),
    ],
)
def test_one_input_needs_no_name(request_, specs, expected):
    (made,) = tensors_of(request_, specs).values()
    assert made.tolist() == expected


@pytest.mark.parametrize(
    ("request_", "specs", "message"),
    [
        # The double had its own messages for these, or accepted what the server rejects.
        (
            {"instances": [row("a", "b", "c"), row("d", "e")]},
            RANK,
            r"Failed to process element: 1 key: candidates of 'instances' list. "
            r"Error: .*Expecting tensor size: 3 but got: 2",
        ),
        (
            {"inputs": {"question": ["q", "q"], "candidates": [["a", "b"], ["c"]]}},
            RANK,
            "Encountered list at unexpected size: 1 at level: 1 expected size: 2",
        ),
        ({"inputs": [[1], 2]}, IDS, "JSON Value: 2 found at incorrect level: 2 .* level: 2"),
        (
            {"instances": [row("a"), {"question": "q"}]},
            RANK,
            "element: 1 .*must only have keys: ca",
        ),
        ({"instances": [{**row("a"), "x": 1}]}, RANK, "does not have named input: x"),
        ({"inputs": {"question": ["q"]}}, RANK, "Missing named input: candidates in 'inputs'"),
        ({"instances": ["q"]}, RANK, "instances is a plain list, but expecting list of objects"),
        ({"inputs": ["q"]}, RANK, "inputs is a plain value/list, but expecting an object"),
        ({"instances": [row("a"), "q"]}, RANK, "got both at item 1"),
        ({"instances": []}, TEXT, "at least one value"),
        ({"instances": {"text": "a"}}, TEXT, "to be a list/array"),
        ({"inputs": ["a"], "instances": ["a"]}, TEXT, "only one of 'inputs' or 'instances'"),
        ({}, TEXT, "only one of 'inputs' or 'instances'"),
        ({"inputs": ["1"]}, {"n": tf.TensorSpec((None,), tf.int32)}, "not of expected type: int32"),
        ({"inputs": [2**31]}, {"n": tf.TensorSpec((None,), tf.int32)}, "not of expected type: int"),
        ({"inputs": [3]}, TEXT, "not of expected type: string"),
        ({"inputs": [{"b64": "?"}]}, TEXT, "Unable to base64 decode"),
        ({"inputs": [{"b65": "a"}]}, TEXT, "not formatted correctly for base64 data"),
    ],
)
def test_rows_of_unequal_lists_and_other_types_are_refused_in_the_servers_words(
    request_, specs, message
):
    with pytest.raises(ValueError, match=message):
        tensors_of(request_, specs)
