"""Runs programs within limits on their work."""

import dataclasses
from collections.abc import Generator, Mapping, Sequence
from types import GeneratorType
from typing import Any, Final

from keras_quasiattn.data.algolisp.functions import CONSTANTS, FUNCTIONS, Function
from keras_quasiattn.data.algolisp.trees import ProgramError, Tree, parse_program, shorten
from keras_quasiattn.data.algolisp.values import (
    check_element,
    check_kinds,
    check_type,
    has_type,
    kind_of,
    size_of,
)

MAX_STEPS: Final = 100_000
MAX_DEPTH: Final = 110

# An evaluation is either a value, or a generator that yields the evaluations it waits for, is sent
# their values, and returns an evaluation.
_Evaluation = Any
_Task = Generator[_Evaluation, Any, _Evaluation]
_Scope = Mapping[str, Any]

_PARAMETERS: Final = {"lambda1": ("arg1",), "lambda2": ("arg1", "arg2")}
_FORMS: Final = {"if": 3, "lambda1": 1, "lambda2": 1}
_HIGHER_ORDER: Final = {
    "reduce": ("array", "any", "function"),
    "map": ("array", "function"),
    "filter": ("array", "function"),
    "invoke1": ("function", "any"),
    "combine": ("function", "function"),
    **{f"partial{place}": ("any", "function") for place in range(3)},
}


@dataclasses.dataclass(frozen=True, eq=False)
class _HigherOrder:
    name: str


@dataclasses.dataclass(frozen=True, eq=False)
class _Closure:
    parameters: Sequence[str]
    body: Tree
    scope: _Scope


@dataclasses.dataclass(frozen=True, eq=False)
class _Partial:
    place: int
    value: Any
    function: Any


@dataclasses.dataclass(frozen=True, eq=False)
class _Combined:
    outer: Any
    inner: Any


_GLOBALS: Final[_Scope] = {
    **CONSTANTS,
    **FUNCTIONS,
    **{name: _HigherOrder(name) for name in _HIGHER_ORDER},
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
    bits and ranges 1,000 numbers; arrays hold scalars or arrays of scalars.

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
        _check(self.tree, frozenset(self.arguments))

    def run(self, inputs: Mapping[str, Any], max_steps: int = MAX_STEPS) -> Any:
        """Runs the program: returns a number, truth value, string, array or dictionary.

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
        return _Machine(max_steps).run(self.tree, inputs)


def _check(tree: Tree, names: frozenset[str]) -> None:
    """Rejects unknown names, and calls that are wrong whatever the inputs are."""
    if isinstance(tree, str):
        if tree in _FORMS and tree not in names:
            raise ProgramError(f"{tree} is not a value; it can only be called")
        if tree not in names and tree not in _GLOBALS:
            raise ProgramError(f"unknown name {shorten(tree)}")
        return
    head, *arguments = tree
    if not isinstance(head, str):
        raise ProgramError("a call begins with a bracket; expected the name of a function")
    if head not in names and head not in _FORMS:
        _check(head, names)
        if head in CONSTANTS:
            raise ProgramError(f"{head} is not a function")
    if head not in names:
        known = FUNCTIONS[head].kinds if head in FUNCTIONS else _HIGHER_ORDER.get(head, ())
        wanted = _FORMS.get(head, len(known))
        if len(arguments) != wanted:
            raise ProgramError(f"{head} takes {wanted} arguments, not {len(arguments)}")
        names = names.union(_PARAMETERS.get(head, ()), ["self"] if head in _PARAMETERS else [])
    for argument in arguments:
        _check(argument, names)


class _Machine:
    """Evaluates programs on its own stack, so that they cannot exhaust Python's stack."""

    def __init__(self, max_steps: int) -> None:
        self.max_steps = max_steps
        self.steps = 0

    def run(self, tree: Tree, scope: _Scope) -> Any:
        stack: list[_Task] = []
        value = self.evaluate(tree, scope, 0)
        while True:
            if type(value) is GeneratorType:
                stack.append(value)
                value = None
            elif not stack:
                return value
            try:
                value = stack[-1].send(value)
            except StopIteration as returned:
                stack.pop()
                value = returned.value

    def evaluate(self, tree: Tree, scope: _Scope, depth: int) -> _Evaluation:
        if isinstance(tree, str):
            return scope[tree] if tree in scope else _GLOBALS[tree]
        if tree[0] in scope or tree[0] not in _FORMS:
            return self._call(tree, scope, depth)
        if tree[0] == "if":
            return self._choose(tree, scope, depth)
        return _Closure(_PARAMETERS[tree[0]], tree[1], scope)

    def _choose(self, tree: Tree, scope: _Scope, depth: int) -> _Task:
        condition = yield self.evaluate(tree[1], scope, depth)
        if type(condition) is not bool:
            raise ProgramError(
                f"the condition of if must be a truth value, not {kind_of(condition)}"
            )
        return self.evaluate(tree[2 if condition else 3], scope, depth)

    def _call(self, tree: Tree, scope: _Scope, depth: int) -> _Task:
        arguments = []
        for argument in tree[1:]:
            value = self.evaluate(argument, scope, depth)
            arguments.append((yield value) if type(value) is GeneratorType else value)
        return self._apply(self.evaluate(tree[0], scope, depth), arguments, depth)

    def _apply(self, function: Any, arguments: Sequence[Any], depth: int) -> _Evaluation:
        while type(function) is _Partial:
            self._work(1)
            place = function.place
            if place > len(arguments):
                raise ProgramError(
                    f"a function made by partial{place} takes {place} or more arguments, "
                    f"not {len(arguments)}"
                )
            arguments = [*arguments[:place], function.value, *arguments[place:]]
            function = function.function
        self._work(1 + sum(map(size_of, arguments)))
        if type(function) is Function:
            self._work(function.work(*arguments))
            value = function(*arguments)
            self._work(size_of(value))
            return value
        if type(function) is _Closure:
            names = function.parameters
            if len(names) != len(arguments):
                raise ProgramError(f"a function takes {len(names)} arguments, not {len(arguments)}")
            if depth == MAX_DEPTH:
                raise ProgramError(f"function calls are nested more than {MAX_DEPTH} deep")
            scope = {**function.scope, **dict(zip(names, arguments, strict=True)), "self": function}
            return self.evaluate(function.body, scope, depth + 1)
        if type(function) is _Combined:
            return self._apply_combined(function, arguments, depth)
        if type(function) is _HigherOrder:
            return self._apply_higher_order(function.name, arguments, depth)
        raise ProgramError(f"only a function can be called, not {kind_of(function)}")

    def _apply_combined(self, function: _Combined, arguments: Sequence[Any], depth: int) -> _Task:
        value = yield self._apply(function.inner, arguments, depth)
        return self._apply(function.outer, [value], depth)

    def _apply_higher_order(self, name: str, arguments: Sequence[Any], depth: int) -> _Task:
        check_kinds(name, _HIGHER_ORDER[name], arguments)
        if name == "combine":
            return _Combined(*arguments)
        if name.startswith("partial"):
            return _Partial(int(name[-1]), *arguments)
        if name == "invoke1":
            return self._apply(arguments[0], arguments[1:], depth)
        if name == "reduce":
            array, value, function = arguments
            for element in array:
                value = yield self._apply(function, [value, element], depth)
            return value
        array, function = arguments
        values = []
        for element in array:
            value = yield self._apply(function, [element], depth)
            if name == "map":
                check_element(value)
                self._work(1 + size_of(value))
                values.append(value)
            elif type(value) is not bool:
                raise ProgramError(
                    f"the condition of filter must be a truth value, not {kind_of(value)}"
                )
            elif value:
                values.append(element)
        return values

    def _work(self, steps: int) -> None:
        self.steps += steps
        if self.steps > self.max_steps:
            raise ProgramError(f"the program takes more than {self.max_steps} steps")
