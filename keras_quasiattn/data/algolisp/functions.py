"""The constants of the language, and its functions that take no function as an argument."""

import dataclasses
import itertools
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

from keras_quasiattn.data.algolisp.trees import ProgramError
from keras_quasiattn.data.algolisp.values import (
    MAX_INTEGER_BITS,
    are_equal,
    check_element,
    check_kinds,
    check_scalar,
    check_size,
    kind_of,
)

MAX_RANGE: Final = 1000

CONSTANTS: Final[Mapping[str, Any]] = {
    **{str(number): number for number in (0, 1, 2, 10, 40, 1_000_000_000)},
    "inf": math.inf,
    '""': "",
    '" "': " ",
    '"z"': "z",
    "true": True,
    "false": False,
    "int": int,
}


@dataclasses.dataclass(frozen=True, eq=False)
class Function:
    """A function of the language.

    Args:
        name: its name in programs.
        kinds: what each argument must be: a kind of `kind_of`, or "any" for anything but a
            function.
        compute: computes the result; may raise ProgramError or ArithmeticError.
        work: from a call's arguments, of any number and kind, the steps that it takes in addition
            to those for its arguments and its result.
    """

    name: str
    kinds: tuple[str, ...]
    compute: Callable[..., Any]
    work: Callable[..., int] = lambda *_: 0

    def __call__(self, *arguments: Any) -> Any:
        """Checks the number and kinds of the arguments and computes the result."""
        check_kinds(self.name, self.kinds, arguments)
        try:
            return check_size(self.compute(*arguments))
        except ArithmeticError as error:
            raise ProgramError(f"{self.name}: {error}") from None


def _whole(number: float) -> int:
    if not math.isfinite(number):
        raise ProgramError(f"cannot convert {number} to a whole number")
    return int(number)


def _divide(left: float, right: float) -> float:
    return left // right if type(left) is int else left / right


def _power(base: float, exponent: float) -> Any:
    if type(base) is type(exponent) is int and base.bit_length() * exponent > 2 * MAX_INTEGER_BITS:
        if base in (-1, 0, 1):
            return base if exponent % 2 else base * base
        raise ProgramError(f"an integer has more than {MAX_INTEGER_BITS} bits")
    return base**exponent


def _root(number: float) -> float:
    if number < 0:
        raise ProgramError("cannot take the root of a negative number")
    return math.sqrt(number)


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def ordered(left: Any, right: Any) -> bool:
        _check_order(left, right)
        return compare(left, right)

    return ordered


def _check_order(*values: Any) -> None:
    kinds = {kind_of(value) for value in values}
    if len(kinds) > 1 or not kinds <= {"number", "string", "truth value"}:
        first, *others = sorted(kinds)
        raise ProgramError(f"cannot compare {first} with {', '.join(others) or first}")


def _sort(array: list) -> list:
    if array:
        _check_order(*array)
    return sorted(array)


def _range(start: float, stop: float) -> list[int]:
    if stop - start > MAX_RANGE:
        raise ProgramError(f"a range has more than {MAX_RANGE} numbers")
    return list(range(_whole(start), _whole(stop)))


def _element(sequence: Any, index: float) -> Any:
    if not 0 <= index < len(sequence) or index != int(index):
        raise ProgramError(f"there is no element {index}: the length is {len(sequence)}")
    return sequence[int(index)]


def _slice(array: list, start: float, stop: float) -> list:
    # A negative stop counts from the end; a negative start means 0.
    return array[max(0, _whole(start)) : _whole(stop)]


def _append(array: list, value: Any) -> list:
    check_element(value)
    return [*array, value]


def _split(text: str, delimiter: str) -> list[str]:
    if not delimiter:
        raise ProgramError("str_split needs a delimiter that is not empty")
    return [part for part in text.split(delimiter) if part]


def _insert(dictionary: dict, key: Any, value: Any) -> dict:
    check_scalar(key)
    check_scalar(value)
    return {**dictionary, key: value}


def _keys(dictionary: dict) -> list:
    return _sort(list(dictionary))


def _is_prime(number: float) -> bool:
    return number > 1 and all(number % divisor for divisor in _range(2, 1 + _root(number)))


def _prime_work(*arguments: Any) -> int:
    if len(arguments) != 1 or type(arguments[0]) not in (int, float):
        return 0
    return int(math.sqrt(max(0, min(arguments[0], MAX_RANGE**2))))


def _is_sorted(array: list) -> bool:
    return all(_LESS_OR_EQUAL(*pair) for pair in itertools.pairwise(array))


def _digits(number: float) -> list[int]:
    if type(number) is not int:
        raise ProgramError(f"digits needs an integer, not {number}")
    return [int(digit) for digit in str(abs(number))]


_LESS_OR_EQUAL = _ordered(operator.le)

_NUMBER, _BOOL, _STRING, _ARRAY = "number", "truth value", "string", "array"
_DEFINITIONS: Final[dict[str, tuple[Any, ...]]] = {  # the fields of `Function` after the name
    "+": ((_NUMBER, _NUMBER), operator.add),
    "-": ((_NUMBER, _NUMBER), operator.sub),
    "*": ((_NUMBER, _NUMBER), operator.mul),
    "/": ((_NUMBER, _NUMBER), _divide),
    "%": ((_NUMBER, _NUMBER), operator.mod),
    "pow": ((_NUMBER, _NUMBER), _power),
    "sqrt": ((_NUMBER,), _root),
    # Rounds towards zero, as does the interpreter that made the published tests.
    "floor": ((_NUMBER,), _whole),
    "!": ((_BOOL,), operator.not_),
    "||": ((_BOOL, _BOOL), operator.or_),
    "&&": ((_BOOL, _BOOL), operator.and_),
    "<": (("any", "any"), _ordered(operator.lt)),
    ">": (("any", "any"), _ordered(operator.gt)),
    "<=": (("any", "any"), _LESS_OR_EQUAL),
    ">=": (("any", "any"), _ordered(operator.ge)),
    "==": (("any", "any"), are_equal),
    "!=": (("any", "any"), lambda left, right: not are_equal(left, right)),
    "range": ((_NUMBER, _NUMBER), _range),
    "array-new": (("type",), lambda _: []),
    "len": ((_ARRAY,), len),
    "head": ((_ARRAY,), lambda array: _element(array, 0)),
    "tail": ((_ARRAY,), lambda array: array[1:]),
    "deref": ((_ARRAY, _NUMBER), _element),
    "int-deref": ((_ARRAY, _NUMBER), _element),
    "slice": ((_ARRAY, _NUMBER, _NUMBER), _slice),
    "append": ((_ARRAY, "any"), _append),
    "sort": ((_ARRAY,), _sort),
    "reverse": ((_ARRAY,), lambda array: array[::-1]),
    "strlen": ((_STRING,), len),
    "str_index": ((_NUMBER, _STRING), lambda index, text: _element(text, index)),
    "str_concat": ((_STRING, _STRING), operator.add),
    "str_split": ((_STRING, _STRING), _split),
    "dict-new": (("type", "type"), lambda _key, _value: {}),
    "dict-insert": (("dictionary", "any", "any"), _insert),
    "dict-keys": (("dictionary",), _keys),
    "square": ((_NUMBER,), lambda number: number * number),
    "is_prime": ((_NUMBER,), _is_prime, _prime_work),
    "min": ((_NUMBER, _NUMBER), lambda left, right: left if left <= right else right),
    "max": ((_NUMBER, _NUMBER), lambda left, right: right if left <= right else left),
    "str_min": ((_STRING, _STRING), min),
    "str_max": ((_STRING, _STRING), max),
    "contains": (
        (_ARRAY, "any"),
        lambda array, value: any(are_equal(element, value) for element in array),
    ),
    "is_sorted": ((_ARRAY,), _is_sorted),
    "abs": ((_NUMBER,), abs),
    "digits": ((_NUMBER,), _digits),
}

FUNCTIONS: Final[Mapping[str, Function]] = {
    name: Function(name, *fields) for name, fields in _DEFINITIONS.items()
}
