"""Makes tensors of the JSON of a REST request, for server_double.py, as the real server does.

A tensor is dense: the lists at one depth are of one length, also those of different rows. Nothing
is padded and no type is converted. The errors have the real server's words (json_tensor.cc).
"""

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from batches import Arrays

Specs = Mapping[str, tf.TensorSpec]
_INTEGERS = (tf.int32, tf.int64)
_FLOATS = (tf.float32, tf.float64)


def tensors_of(request: Mapping[str, Any], specs: Specs) -> Arrays:
    """The tensors of a request by name, from its rows ("instances") or columns ("inputs").

    Raises:
        ValueError: the request has another form, or a tensor would not be dense.
    """
    if ("instances" in request) == ("inputs" in request):
        raise ValueError(
            "Not formatted correctly expecting only one of 'inputs' or 'instances' keys to exist"
        )
    return (_of_rows if "instances" in request else _of_columns)(
        request.get("instances", request.get("inputs")), specs
    )


def _of_rows(rows: Any, specs: Specs) -> Arrays:
    if not isinstance(rows, list) or not rows:
        raise ValueError("Expecting 'instances' to be a list/array with at least one value")
    if not _is_named(rows[0]) and len(specs) > 1:
        raise ValueError(
            "instances is a plain list, but expecting list of objects as multiple input tensors "
            "required as per tensorinfo_map"
        )
    made: dict[str, list[np.ndarray]] = {}
    for number, row in enumerate(rows):
        if _is_named(row) != _is_named(rows[0]):
            raise ValueError(f"Expecting objects or values but got both at item {number}")
        values = row if _is_named(row) else {next(iter(specs)): row}
        for name, value in values.items():
            try:
                if name not in specs:
                    raise ValueError(f"JSON object: does not have named input: {name}")
                made.setdefault(name, []).append(_dense(value, specs[name].dtype))
                first, last = made[name][0], made[name][-1]
                if first.size != last.size:
                    raise ValueError(f"Expecting tensor size: {first.size} but got: {last.size}")
                if first.shape != last.shape:
                    raise ValueError(f"Expecting shape {first.shape} but got: {last.shape}")
            except ValueError as error:
                raise ValueError(
                    f"Failed to process element: {number} key: {name} of 'instances' list. "
                    f"Error: INVALID_ARGUMENT: {error}"
                ) from None
        if values.keys() != specs.keys():
            raise ValueError(
                f"Failed to process element: {number} of 'instances' list. JSON object: "
                f"{json.dumps(row)} must only have keys: {','.join(sorted(specs))}"
            )
    return {name: np.stack(values) for name, values in made.items()}


def _of_columns(columns: Any, specs: Specs) -> Arrays:
    if not _is_named(columns):
        if len(specs) > 1:
            raise ValueError(
                "inputs is a plain value/list, but expecting an object as multiple input tensors "
                "required as per tensorinfo_map"
            )
        columns = {next(iter(specs)): columns}
    for name in specs:
        if name not in columns:
            raise ValueError(f"Missing named input: {name} in 'inputs' object.")
    return {name: _dense(columns[name], spec.dtype) for name, spec in specs.items()}


def _is_named(value: Any) -> bool:
    """Whether the value is an object of tensors, not one text in base 64."""
    return isinstance(value, dict) and not (
        value.keys() == {"b64"} and isinstance(value["b64"], str)
    )


def _dense(value: Any, dtype: tf.DType) -> np.ndarray:
    """The tensor of a value; the first lists decide on its shape."""
    shape, first = [], value
    while isinstance(first, list):
        shape.append(len(first))
        first = first[0] if first else None
    leaves: list[Any] = []

    def fill(part: Any, level: int) -> None:
        if not isinstance(part, list):
            if level != len(shape):
                raise ValueError(
                    f"JSON Value: {json.dumps(part)} found at incorrect level: {level + 1} in the "
                    f"JSON DOM. Expected at level: {len(shape)}"
                )
            leaves.append(_leaf(part, dtype))
            return
        if level >= len(shape):
            raise ValueError(
                f"Encountered list at unexpected level: {level} expected < {len(shape)}"
            )
        if len(part) != shape[level]:
            raise ValueError(
                f"Encountered list at unexpected size: {len(part)} at level: {level} "
                f"expected size: {shape[level]}"
            )
        for one in part:
            fill(one, level + 1)

    fill(value, 0)
    array = np.empty(len(leaves), dtype.as_numpy_dtype)
    array[:] = leaves
    return array.reshape(shape)


def _leaf(value: Any, dtype: tf.DType) -> Any:
    if dtype == tf.string and isinstance(value, dict):
        if _is_named(value):
            raise ValueError(
                f"JSON Value: {json.dumps(value)} not formatted correctly for base64 data"
            )
        try:
            return base64.b64decode(value["b64"], validate=True)
        except binascii.Error:
            raise ValueError("Unable to base64 decode") from None
    whole = isinstance(value, int) and not isinstance(value, bool)
    if dtype == tf.string and isinstance(value, str):
        return value.encode()
    if dtype in _INTEGERS and whole and dtype.min <= value <= dtype.max:
        return value
    if (dtype in _FLOATS and (whole or isinstance(value, float))) or (
        dtype == tf.bool and isinstance(value, bool)
    ):
        return value
    raise ValueError(
        f"JSON Value: {json.dumps(value)} Type: {type(value).__name__} is not of expected type: "
        f"{dtype.name}"
    )
