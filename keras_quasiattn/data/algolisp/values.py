"""What programs compute with: numbers, truth values, strings, arrays and dictionaries of these."""

import re
from collections.abc import Sequence
from typing import Any, Final

from keras_quasiattn.data.algolisp.trees import ProgramError

# About 1,200 decimal digits, fewer than Python refuses to print.
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
    """What a value is: "number", "truth value", "string", "array", "dictionary", "type"; else "function"."""
    return _KINDS.get(type(value), "function")


def are_equal(left: Any, right: Any) -> bool:
    """Whether two values are the same; a truth value is no number, but 2 is 2.0."""
    if type(left) is list and type(right) is list:
        return len(left) == len(right) and all(map(are_equal, left, right))
    return kind_of(left) == kind_of(right) and left == right


def check_scalar(value: Any) -> None:
    """Refuses what cannot be the key or value of a dictionary."""
    if kind_of(value) not in _SCALARS:
        raise ProgramError(f"a dictionary cannot hold this: {kind_of(value)}")


def check_element(value: Any) -> None:
    """Refuses what cannot stand in an array, whose elements are scalars or arrays of scalars."""
    kind = kind_of(value)
    if kind not in _SCALARS and (
        kind != "array" or not all(kind_of(element) in _SCALARS for element in value)
    ):
        raise ProgramError(
            f"an array cannot hold this: {'nested array' if kind == 'array' else kind}"
        )


def check_kinds(name: str, kinds: Sequence[str], arguments: Sequence[Any]) -> None:
    """Refuses arguments of a function that are not as many, or not of these kinds ("any" is all but a function)."""
    if len(arguments) != len(kinds):
        raise ProgramError(f"{name} takes {len(kinds)} arguments, not {len(arguments)}")
    for place, (value, wanted) in enumerate(zip(arguments, kinds, strict=True), 1):
        kind = kind_of(value)
        if kind != wanted and (wanted != "any" or kind == "function"):
            wanted = "a value" if wanted == "any" else wanted
            raise ProgramError(f"argument {place} of {name} must be {wanted}, not {kind}")


def size_of(value: Any) -> int:
    """How many elements and characters a value holds; 0 for a scalar that is no string."""
    if type(value) is list:
        return len(value) + sum(len(element) for element in value if type(element) in (list, str))
    return len(value) if type(value) in (str, dict) else 0


def check_size(value: Any) -> Any:
    """The value, unless it is an integer too large or no real number."""
    if type(value) is int and value.bit_length() > MAX_INTEGER_BITS:
        raise ProgramError(f"an integer has more than {MAX_INTEGER_BITS} bits")
    if type(value) is complex:
        raise ProgramError("a root of a negative number")
    return value


def check_type(name: Any) -> None:
    """Refuses a type that is not int, bool or string, or an array of these, such as `int[]` or `int[][]`."""
    if not isinstance(name, str) or _TYPE.fullmatch(name) is None:
        raise ProgramError(
            f"{name!r} is no type: int, bool, string, int[] and the like would be right"
        )


def has_type(value: Any, name: str) -> bool:
    """Whether a value is of a type; `int` holds every number, for roots and infinity are numbers too.

    >>> has_type([1, 2], "int[]"), has_type([True], "int[]")
    (True, False)
    """
    if name.endswith("[]"):
        return type(value) is list and all(has_type(element, name[:-2]) for element in value)
    return kind_of(value) == _TYPE_KINDS[name]
