"""The language of arithmetic questions: which questions are valid, and their answers."""

import dataclasses
import itertools
import re
from typing import Final, NamedTuple

from keras_quasiattn.errors import UserError

OPERATORS: Final = {"+": int.__add__, "-": int.__sub__, "*": int.__mul__}

_INTEGER = "-?(?:0|[1-9][0-9]*)"
_PATTERN = re.compile(
    rf"(?:x=(?P<x>{_INTEGER}),y=(?P<y>{_INTEGER})|"
    rf"y=(?P<y_first>{_INTEGER}),x=(?P<x_second>{_INTEGER}))"
    rf",(?P<left>[xy])(?P<operator>[{re.escape(''.join(OPERATORS))}])(?P<right>[xy])"
)
_SHOWN_CHARACTERS = 40


class Expression(NamedTuple):
    """Two assigned variables and one operation on them."""

    x: int
    y: int
    left: str
    operator: str
    right: str

    @property
    def answer(self) -> int:
        """The value of the expression."""
        return OPERATORS[self.operator](getattr(self, self.left), getattr(self, self.right))

    @property
    def kind(self) -> str:
        """The operator, and whether the operands are the same variable: `x-x`, `x-y`."""
        return f"x{self.operator}{'x' if self.left == self.right else 'y'}"


@dataclasses.dataclass(frozen=True)
class ArithmeticGrammar:
    """Parses expressions such as `x=85,y=-52,y-x`; an error says in one line what is wrong.

        expression = "x=" integer ",y=" integer "," operand operator operand
                   | "y=" integer ",x=" integer "," operand operator operand
        operand    = "x" | "y"                      (an operand may repeat: x*x)
        integer    = decimal digits in [low, high), no leading zeros, "-" before a negative number

    Nothing else is allowed, not even spaces, because the model sees the text byte by byte.

    Args:
        low: Smallest value of a variable.
        high: One more than the largest value of a variable.
        operators: The allowed operators, characters of "+-*".

    Raises:
        ValueError: If the range is empty, or if operators are missing, repeated or unknown.

    >>> grammar = ArithmeticGrammar(low=-100, high=100, operators="+-")
    >>> grammar.evaluate("x=85,y=-52,y-x")
    -137
    """

    low: int = -1000
    high: int = 1000
    operators: str = "+-*"

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise ValueError(f"low must be less than high; got low={self.low}, high={self.high}")
        known = set(self.operators) <= set(OPERATORS)
        if not self.operators or not known or len(set(self.operators)) < len(self.operators):
            raise ValueError(
                f"operators must be distinct characters of {''.join(OPERATORS)!r}; "
                f"got {self.operators!r}"
            )

    @property
    def description(self) -> str:
        """What is allowed, in one line for error messages."""
        operators = " ".join(self.operators)
        return (
            "expected 'x=INTEGER,y=INTEGER,OPERATION' or 'y=INTEGER,x=INTEGER,OPERATION' with "
            f"integers from {self.low} to {self.high - 1} and an OPERATION such as "
            f"'y{self.operators[0]}x' (operands x and y, operators {operators})"
        )

    @property
    def longest_expression(self) -> int:
        """Length of the longest expression in characters."""
        return len(f"x=,y=,x{self.operators[0]}y") + 2 * max(len(str(v)) for v in self._extremes)

    @property
    def longest_answer(self) -> int:
        """Length of the longest answer in characters."""
        pairs = itertools.product(self._extremes, repeat=2)
        return max(len(str(OPERATORS[o](a, b))) for a, b in pairs for o in self.operators)

    @property
    def _extremes(self) -> tuple[int, int]:
        return self.low, self.high - 1

    def parse(self, text: str | bytes) -> Expression:
        """Parses one expression.

        Args:
            text: The expression; bytes are read as ASCII.

        Returns:
            The assigned values and the operation.

        Raises:
            UserError: If the text is not an expression of this grammar.
        """
        # Latin-1 decodes every byte and the pattern is ASCII, so invalid UTF-8 just does not match.
        match = _PATTERN.fullmatch(text.decode("latin-1") if isinstance(text, bytes) else text)
        if match is None:
            raise UserError(f"cannot read {_shorten(text)} as an expression: {self.description}")
        if match["operator"] not in self.operators:
            raise UserError(
                f"operator {match['operator']!r} in {_shorten(text)} is not known: "
                f"{self.description}"
            )
        return Expression(
            x=self._value("x", match["x"] or match["x_second"], text),
            y=self._value("y", match["y"] or match["y_first"], text),
            left=match["left"],
            operator=match["operator"],
            right=match["right"],
        )

    def evaluate(self, text: str | bytes) -> int:
        """The answer to an expression; raises the same errors as `parse`."""
        return self.parse(text).answer

    def _value(self, name: str, digits: str, text: str | bytes) -> int:
        # Check the length first: int() rejects thousands of digits with a different error.
        too_long = len(digits) > max(len(str(v)) for v in self._extremes)
        if too_long or digits == "-0" or not self.low <= int(digits) < self.high:
            raise UserError(
                f"the value of {name} in {_shorten(text)} is not an integer from {self.low} to "
                f"{self.high - 1}: {self.description}"
            )
        return int(digits)


def _shorten(text: str | bytes) -> str:
    """The text escaped on one line; if it is cut, its length follows."""
    if len(text) <= _SHOWN_CHARACTERS:
        return repr(text)
    unit = "bytes" if isinstance(text, bytes) else "characters"
    return f"{text[:_SHOWN_CHARACTERS]!r}... ({len(text)} {unit})"
