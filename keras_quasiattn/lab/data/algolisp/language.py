"""The AlgoLisp language: how programs are written, their values and functions, and how they run."""

import itertools
import math
import operator
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

Tree: TypeAlias = "str | list[Tree]"

MAX_NESTING: Final = 110  # of brackets; about fifteen in published programs
MAX_DEPTH: Final = 110  # of function calls within each other
MAX_STEPS: Final = 100_000
MAX_RANGE: Final = 1000
# About 1,200 decimal digits, which is below Python's limit for printing integers.
MAX_INTEGER_BITS: Final = 4096
_MAX_FRAMES = 10_000  # of Python's stack

_TOKEN = re.compile(r'" "|\S+')  # " " is a constant of the language
_TYPE = re.compile(r"(int|bool|string)((?:\[\]){0,2})")
_TYPE_KINDS = {"int": "number", "bool": "truth value", "string": "string"}
_KINDS: Final[dict[type, str]] = {
    **{int: "number", float: "number", bool: "truth value", str: "string"},
    **{list: "array", dict: "dictionary", type: "type"},
}
_SCALARS: Final = {"number", "truth value", "string"}


class ProgramError(ValueError):
    """A program cannot be read or run; the message gives the reason in one line."""


# Programs as nested lists and as tokens.


def parse_program(text: str) -> Tree:
    """Parse a program, brackets, names and constants separated by spaces, to nested lists."""
    open_calls: list[list[Tree]] = [[]]
    for place, token in enumerate(_TOKEN.findall(text), 1):
        if len(open_calls) == 1 and open_calls[0]:
            raise ProgramError(
                f"token {place}, {_shorten(token)}, comes after the end of the program"
            )
        if token == "[":
            if len(open_calls) > MAX_NESTING:
                raise ProgramError(f"token {place} nests brackets more than {MAX_NESTING} deep")
            open_calls.append([])
        elif token != "]":
            open_calls[-1].append(token)
        elif len(open_calls) == 1:
            raise ProgramError(f"token {place} closes a bracket that was never opened")
        elif not (call := open_calls.pop()):
            raise ProgramError(f"token {place} closes an empty bracket")
        else:
            open_calls[-1].append(call)
    if len(open_calls) > 1:
        raise ProgramError(f"the program ends with {len(open_calls) - 1} open brackets")
    if not open_calls[0]:
        raise ProgramError("the program is empty")
    return open_calls[0][0]


def write_program(tree: Tree) -> str:
    """Write a program as tokens separated by spaces, which `parse_program` reads."""
    return tree if isinstance(tree, str) else f"[ {' '.join(map(write_program, tree))} ]"


def _shorten(text: str) -> str:
    return repr(text) if len(text) <= 40 else f"{text[:40]!r}..."


# The values of programs: numbers, truth values, strings, arrays, dictionaries and functions.


def kind_of(value: Any) -> str:
    """Return "number", "truth value", "string", "array", "dictionary", "type" or "function"."""
    return _KINDS.get(type(value), "function")


def are_equal(left: Any, right: Any) -> bool:
    """Return whether two values are equal; a truth value equals no number, but 2 equals 2.0."""
    if type(left) is list and type(right) is list:
        return len(left) == len(right) and all(map(are_equal, left, right))
    return kind_of(left) == kind_of(right) and left == right


def has_type(value: Any, name: str) -> bool:
    """Return whether a value has a type; `int` includes all numbers, such as roots and infinity."""
    if name.endswith("[]"):
        return type(value) is list and all(has_type(element, name[:-2]) for element in value)
    return kind_of(value) == _TYPE_KINDS[name]


def size_of(value: Any) -> int:
    """Return the number of elements and characters in a value; 0 for numbers and functions."""
    if type(value) is list:
        return len(value) + sum(len(element) for element in value if type(element) in (list, str))
    return len(value) if type(value) in (str, dict) else 0


def check_type(name: Any) -> None:
    """Reject a type other than int, bool, string or arrays of these, `int[]` or `int[][]`."""
    if not isinstance(name, str) or _TYPE.fullmatch(name) is None:
        raise ProgramError(
            f"{name!r} is not a type: expected int, bool, string or an array of one, such as int[]"
        )


def _check_element(value: Any, holder: str = "an array") -> None:
    kind = kind_of(value)
    if kind not in _SCALARS and (kind != "array" or not set(map(kind_of, value)) <= _SCALARS):
        raise ProgramError(
            f"{holder} can only hold numbers, truth values, strings and arrays of these, "
            f"not {'nested array' if kind == 'array' else kind}"
        )


# Constants, and functions that take no function as an argument.

CONSTANTS: Final[Mapping[str, Any]] = {
    **{str(number): number for number in (0, 1, 2, 10, 40, 1_000_000_000)},
    **{"inf": math.inf, '""': "", '" "': " ", '"z"': "z"},
    **{"true": True, "false": False, "int": int},
}


def _whole(number: float) -> int:
    if not math.isfinite(number):
        raise ProgramError(f"cannot convert {number} to a whole number")
    return int(number)


def _power(base: float, exponent: float) -> Any:
    if type(base) is type(exponent) is int and base.bit_length() * exponent > 2 * MAX_INTEGER_BITS:
        if base in (-1, 0, 1):
            return base if exponent % 2 else base * base
        raise ProgramError(f"an integer has more than {MAX_INTEGER_BITS} bits")
    return base**exponent


def _check_order(*values: Any) -> None:
    kinds = {kind_of(value) for value in values}
    if len(kinds) > 1 or not kinds <= _SCALARS:
        first, *others = sorted(kinds)
        raise ProgramError(f"cannot compare {first} with {', '.join(others) or first}")


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def ordered(left: Any, right: Any) -> bool:
        _check_order(left, right)
        return compare(left, right)

    return ordered


def _sort(array: Sequence[Any]) -> list:
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


def _append(array: list, value: Any) -> list:
    _check_element(value)
    return [*array, value]


def _insert(known: Mapping[Any, Any], key: Any, value: Any) -> dict:
    # Comparing dictionaries that hold each other twice takes steps that nothing counts.
    _check_element(value, "a dictionary")
    return {**known, key: value}


def _is_prime(number: float) -> bool:
    return number > 1 and all(number % divisor for divisor in _range(2, 1 + math.sqrt(number)))


_LESS_OR_EQUAL = _ordered(operator.le)

# By the kinds of the arguments ("any" is all but a function): names, and implementations, which may
# raise any error of Python for values that they cannot take.
_DEFINITIONS: Final[dict[str, dict[str, Callable[..., Any]]]] = {
    "number": {
        **{"sqrt": math.sqrt, "abs": abs, "is_prime": _is_prime},
        "square": lambda number: number * number,
        "floor": _whole,  # rounds towards zero, as in the published tests
        "digits": lambda number: [int(digit) for digit in str(abs(number))],
    },
    "number, number": {
        **{"+": operator.add, "-": operator.sub, "*": operator.mul},
        "/": lambda left, right: left // right if type(left) is int else left / right,
        **{"%": operator.mod, "pow": _power, "range": _range},
        "min": lambda left, right: left if left <= right else right,
        "max": lambda left, right: right if left <= right else left,
    },
    "truth value": {"!": operator.not_},
    "truth value, truth value": {"||": operator.or_, "&&": operator.and_},
    "any, any": {
        **{"<": _ordered(operator.lt), ">": _ordered(operator.gt), "<=": _LESS_OR_EQUAL},
        **{">=": _ordered(operator.ge), "==": are_equal},
        "!=": lambda left, right: not are_equal(left, right),
    },
    "string": {"strlen": len},
    "string, string": {
        **{"str_concat": operator.add, "str_min": min, "str_max": max},
        "str_split": lambda text, delimiter: [part for part in text.split(delimiter) if part],
    },
    "number, string": {"str_index": lambda index, text: _element(text, index)},
    "type": {"array-new": lambda _: []},
    "array": {
        **{"len": len, "sort": _sort},
        "head": lambda array: _element(array, 0),
        "tail": lambda array: array[1:],
        "reverse": lambda array: array[::-1],
        "is_sorted": lambda array: all(_LESS_OR_EQUAL(*pair) for pair in itertools.pairwise(array)),
    },
    "array, number": {"deref": _element, "int-deref": _element},
    # A negative stop counts from the end; a negative start means 0.
    "array, number, number": {
        "slice": lambda array, start, stop: array[max(0, _whole(start)) : _whole(stop)]
    },
    "array, any": {
        "append": _append,
        "contains": lambda array, value: any(are_equal(one, value) for one in array),
    },
    "type, type": {"dict-new": lambda _key, _value: {}},
    "dictionary, any, any": {"dict-insert": _insert},
    "dictionary": {"dict-keys": lambda dictionary: _sort(tuple(dictionary))},
}


# The functions that programs call: of the language, and made by a program.


class Function(NamedTuple):
    """A function of the language; `compute` is None if it takes a function as an argument."""

    name: str
    kinds: tuple[str, ...]
    compute: Callable[..., Any] | None


class _Closure(NamedTuple):
    parameters: Sequence[str]
    body: Tree
    scope: Mapping[str, Any]


class _Partial(NamedTuple):
    place: int
    value: Any
    function: Any


class _Combined(NamedTuple):
    outer: Any
    inner: Any


FUNCTIONS: Final[Mapping[str, Function]] = {
    name: Function(name, tuple(kinds.split(", ")), compute)
    for kinds, functions in _DEFINITIONS.items()
    for name, compute in functions.items()
}
_PARAMETERS: Final = {"lambda1": ("arg1",), "lambda2": ("arg1", "arg2")}
_HIGHER_ORDER: Final = {
    **{"reduce": ("array", "any", "function"), "invoke1": ("function", "any")},
    **dict.fromkeys(("map", "filter"), ("array", "function")),
    "combine": ("function", "function"),
    **{f"partial{place}": ("any", "function") for place in range(3)},
}
_GLOBALS: Final[Mapping[str, Any]] = {
    **CONSTANTS,
    **FUNCTIONS,
    **{name: Function(name, kinds, None) for name, kinds in _HIGHER_ORDER.items()},
}
_ARITIES: Final = {
    **{name: len(one.kinds) for name, one in _GLOBALS.items() if type(one) is Function},
    **{"if": 3, "lambda1": 1, "lambda2": 1},
}


class Program:
    """A program of the AlgoLisp language that can be run on inputs.

    A call is a function's name and its arguments in brackets, `[ + a [ len b ] ]`. A name without
    brackets is a value; functions are values too. `lambda1` and `lambda2` make functions of `arg1`
    (and `arg2`), in which `self` is the function itself; names are looked up where the function is
    defined. All arguments are evaluated before a call, those of `&&` and `||` too; only `if`
    evaluates just one branch. `/` rounds integers down. Division by zero, an index out of range,
    the head of an empty array and arguments of the wrong kind are errors.

    Python never executes any part of a program as code, and no program can exceed its limits.
    `max_steps` limits the number of calls plus the elements and characters that they take and
    return, and so also limits memory. Functions may be nested 110 deep; integers have at most 4,096
    bits and ranges 1,000 numbers; arrays and dictionaries hold scalars or arrays of scalars.

    Args:
        text: tokens separated by spaces.
        arguments: type of each argument by name: int, bool, string, or an array of these, such as
            int[].

    Raises:
        ProgramError: brackets do not match, a name is unknown, or a call has too few or too many
            arguments.

    >>> odd = Program("[ filter a [ lambda1 [ == [ % arg1 2 ] 1 ] ] ]", {"a": "int[]"})
    >>> odd.run({"a": [2, 9, 9, 17, 4]})
    [9, 9, 17]

    Source: Polosukhin and Skidanov 2018, "Neural Program Search", and the interpreter published
    with it.
    """

    def __init__(self, text: str, arguments: Mapping[str, str]) -> None:
        self.tree = parse_program(text)
        self.arguments = dict(arguments)
        for type_name in self.arguments.values():
            check_type(type_name)
        _check_names(self.tree, frozenset(self.arguments))

    def run(self, inputs: Mapping[str, Any], max_steps: int = MAX_STEPS) -> Any:
        """Run the program and return a number, truth value, string, array or dictionary.

        Args:
            inputs: value of each argument by name.
            max_steps: number of steps after which the program is stopped.

        Raises:
            ProgramError: an input is missing or has another type, or the program fails or exceeds a
                limit.
        """
        if inputs.keys() != self.arguments.keys():
            raise ProgramError(
                f"the program takes the arguments {sorted(self.arguments)}, not {sorted(inputs)}"
            )
        for name, type_name in self.arguments.items():
            if not has_type(inputs[name], type_name):
                raise ProgramError(f"argument {name} is not of type {type_name}")
        before = sys.getrecursionlimit()
        sys.setrecursionlimit(_MAX_FRAMES)
        try:
            return _Machine(max_steps).evaluate(self.tree, inputs)
        except RecursionError:
            raise ProgramError("calls are nested too deep") from None
        finally:
            sys.setrecursionlimit(before)


def _check_names(tree: Tree, names: frozenset[str]) -> None:
    """Reject unknown names, and calls that are wrong whatever the inputs are."""
    if isinstance(tree, str):
        if tree not in names and tree not in _GLOBALS:
            if tree in _ARITIES:
                raise ProgramError(f"{tree} is not a value; it can only be called")
            raise ProgramError(f"unknown name {_shorten(tree)}")
        return
    head, *arguments = tree
    if not isinstance(head, str):
        raise ProgramError("a call begins with a bracket; expected the name of a function")
    if head not in names:
        if head not in _ARITIES:
            _check_names(head, names)
            raise ProgramError(f"{head} is not a function")
        if len(arguments) != _ARITIES[head]:
            raise ProgramError(f"{head} takes {_ARITIES[head]} arguments, not {len(arguments)}")
        if head in _PARAMETERS:
            names = names.union(_PARAMETERS[head], ["self"])
    for argument in arguments:
        _check_names(argument, names)


class _Machine:
    """Evaluate a program, and count its steps and how deep its functions are nested."""

    def __init__(self, max_steps: int) -> None:
        self._max_steps, self._steps, self._depth = max_steps, 0, 0

    def evaluate(self, tree: Tree, scope: Mapping[str, Any]) -> Any:
        if isinstance(tree, str):
            return scope[tree] if tree in scope else _GLOBALS[tree]
        name, *arguments = tree
        if name in _PARAMETERS and name not in scope:
            return _Closure(_PARAMETERS[name], arguments[0], scope)
        if name == "if" and name not in scope:
            condition = self.evaluate(arguments[0], scope)
            return self.evaluate(arguments[1 if _is_true(condition, name) else 2], scope)
        values = [self.evaluate(argument, scope) for argument in arguments]
        return self._apply(self.evaluate(name, scope), values)

    def _apply(self, function: Any, arguments: Sequence[Any]) -> Any:
        # Functions made of functions may be long chains, and must not fill Python's stack.
        while type(function) in (_Partial, _Combined):
            if type(function) is _Partial:
                self._work(1)
                place, value, function = function
                if place > len(arguments):
                    raise ProgramError(
                        f"a function made by partial{place} takes {place} or more arguments, "
                        f"not {len(arguments)}"
                    )
                arguments = [*arguments[:place], value, *arguments[place:]]
            else:
                self._work(1, *arguments)
                arguments, function = [self._apply(function.inner, arguments)], function.outer
        self._work(1, *arguments)
        if type(function) is _Closure:
            return self._call(function, arguments)
        if type(function) is not Function:
            raise ProgramError(f"only a function can be called, not {kind_of(function)}")
        _check_kinds(function, arguments)
        if function.compute is None:
            return self._apply_higher_order(function.name, *arguments)
        try:
            value = function.compute(*arguments)
        except ProgramError:
            raise
        except (ArithmeticError, TypeError, ValueError) as error:
            raise ProgramError(f"{function.name}: {error}") from None
        if type(value) is int and value.bit_length() > MAX_INTEGER_BITS:
            raise ProgramError(f"an integer has more than {MAX_INTEGER_BITS} bits")
        if type(value) is complex:
            raise ProgramError("cannot take the root of a negative number")
        if function.compute is _is_prime:  # one step for each possible divisor
            self._work(int(math.sqrt(max(0, min(arguments[0], MAX_RANGE**2)))))
        self._work(0, value)
        return value

    def _call(self, function: _Closure, arguments: Sequence[Any]) -> Any:
        names = function.parameters
        if len(names) != len(arguments):
            raise ProgramError(f"a function takes {len(names)} arguments, not {len(arguments)}")
        if self._depth == MAX_DEPTH:
            raise ProgramError(f"function calls are nested more than {MAX_DEPTH} deep")
        self._depth += 1
        scope = {**function.scope, **dict(zip(names, arguments, strict=True)), "self": function}
        value = self.evaluate(function.body, scope)
        self._depth -= 1
        return value

    def _apply_higher_order(self, name: str, *arguments: Any) -> Any:
        if name == "combine":
            return _Combined(*arguments)
        if name.startswith("partial"):
            return _Partial(int(name[-1]), *arguments)
        if name == "invoke1":
            return self._apply(arguments[0], arguments[1:])
        if name == "reduce":
            array, value, function = arguments
            for element in array:
                value = self._apply(function, [value, element])
            return value
        array, function = arguments
        values = []
        for element in array:
            value = self._apply(function, [element])
            if name == "map":
                _check_element(value)
                self._work(1, value)
                values.append(value)
            elif _is_true(value, name):
                values.append(element)
        return values

    def _work(self, steps: int, *values: Any) -> None:
        self._steps += steps + sum(map(size_of, values))
        if self._steps > self._max_steps:
            raise ProgramError(f"the program takes more than {self._max_steps} steps")


def _is_true(condition: Any, name: str) -> bool:
    if type(condition) is not bool:
        kind = kind_of(condition)
        raise ProgramError(f"the condition of {name} must be a truth value, not {kind}")
    return condition


def _check_kinds(function: Function, arguments: Sequence[Any]) -> None:
    name, kinds, _ = function
    if len(arguments) != len(kinds):
        raise ProgramError(f"{name} takes {len(kinds)} arguments, not {len(arguments)}")
    for place, (value, wanted) in enumerate(zip(arguments, kinds, strict=True), 1):
        kind = kind_of(value)
        if kind != wanted and (wanted != "any" or kind == "function"):
            wanted = "a value" if wanted == "any" else wanted
            raise ProgramError(f"argument {place} of {name} must be {wanted}, not {kind}")
