"""The values of programs: numbers, truth values, strings, arrays and dictionaries."""

import re
from collections.abc import Sequence
from typing import Any, Final

from keras_quasiattn.data.algolisp.trees import ProgramError

# About 1,200 decimal digits, which is below Python's limit for printing integers.
MAX_INTEGER_BITS: Final = 4096

_KINDS: Final[dict[type, str]] = {
    int: "number",
    float: "number",
    bool: "truth value",
    str: "string",
    list: "array",
    dict: "dictionary",
    type: "type",
}
_SCALARS: Final = {"number", "truth value", "string"}
_TYPE = re.compile(r"(int|bool|string)((?:\[\]){0,2})")
_TYPE_KINDS = {"int": "number", "bool": "truth value", "string": "string"}


def kind_of(value: Any) -> str:
    """The kind: "number", "truth value", "string", "array", "dictionary", "type" or "function"."""
    return _KINDS.get(type(value), "function")


def are_equal(left: Any, right: Any) -> bool:
    """Whether two values are equal; a truth value never equals a number, but 2 equals 2.0."""
    if type(left) is list and type(right) is list:
        return len(left) == len(right) and all(map(are_equal, left, right))
    return kind_of(left) == kind_of(right) and left == right


def check_scalar(value: Any) -> None:
    """Rejects what cannot be the key or value of a dictionary."""
    if kind_of(value) not in _SCALARS:
        raise ProgramError(
            f"a dictionary can only hold numbers, truth values and strings, not {kind_of(value)}"
        )


def check_element(value: Any) -> None:
    """Rejects what cannot be in an array; elements are scalars or arrays of scalars."""
    kind = kind_of(value)
    if kind not in _SCALARS and (
        kind != "array" or not all(kind_of(element) in _SCALARS for element in value)
    ):
        raise ProgramError(
            "an array can only hold numbers, truth values, strings and arrays of these, "
            f"not {'nested array' if kind == 'array' else kind}"
        )


def check_kinds(name: str, kinds: Sequence[str], arguments: Sequence[Any]) -> None:
    """Rejects arguments of the wrong number or kinds ("any" is everything but a function)."""
    if len(arguments) != len(kinds):
        raise ProgramError(f"{name} takes {len(kinds)} arguments, not {len(arguments)}")
    for place, (value, wanted) in enumerate(zip(arguments, kinds, strict=True), 1):
        kind = kind_of(value)
        if kind != wanted and (wanted != "any" or kind == "function"):
            wanted = "a value" if wanted == "any" else wanted
            raise ProgramError(f"argument {place} of {name} must be {wanted}, not {kind}")


def size_of(value: Any) -> int:
    """Number of elements and characters in a value; 0 for numbers, truth values and functions."""
    if type(value) is list:
        return len(value) + sum(len(element) for element in value if type(element) in (list, str))
    return len(value) if type(value) in (str, dict) else 0


def check_size(value: Any) -> Any:
    """Returns the value; rejects integers that are too large, and complex numbers."""
    if type(value) is int and value.bit_length() > MAX_INTEGER_BITS:
        raise ProgramError(f"an integer has more than {MAX_INTEGER_BITS} bits")
    if type(value) is complex:
        raise ProgramError("cannot take the root of a negative number")
    return value


def check_type(name: Any) -> None:
    """Rejects a type other than int, bool, string or arrays of these, `int[]` or `int[][]`."""
    if not isinstance(name, str) or _TYPE.fullmatch(name) is None:
        raise ProgramError(
            f"{name!r} is not a type: expected int, bool, string or an array of one, such as int[]"
        )


def has_type(value: Any, name: str) -> bool:
    """Whether a value has a type; `int` includes all numbers, such as roots and infinity.

    >>> has_type([1, 2], "int[]"), has_type([True], "int[]")
    (True, False)
    """
    if name.endswith("[]"):
        return type(value) is list and all(has_type(element, name[:-2]) for element in value)
    return kind_of(value) == _TYPE_KINDS[name]
