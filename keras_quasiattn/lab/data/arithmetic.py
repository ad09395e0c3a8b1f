"""Arithmetic questions such as `x=85,y=-523,x*y`: their grammar, and a TFDS data set of them."""

import dataclasses
import functools
import itertools
import math
import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import tensorflow_datasets as tfds

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.data.hashing import keyed_hash, permute
from keras_quasiattn.lab.data.preparation import GeneratedTexts

OPERATORS: Final = {"+": int.__add__, "-": int.__sub__, "*": int.__mul__}
# Shares of all expressions; validation is taken from the nine tenths that are not test.
SPLITS: Final = {"train": 0.89, "validation": 0.01, "test": 0.10}

_INTEGER = "-?(?:0|[1-9][0-9]*)"
_PATTERN = re.compile(
    rf"(?:x=(?P<x>{_INTEGER}),y=(?P<y>{_INTEGER})|"
    rf"y=(?P<y_first>{_INTEGER}),x=(?P<x_second>{_INTEGER}))"
    rf",(?P<left>[xy])(?P<operator>[{re.escape(''.join(OPERATORS))}])(?P<right>[xy])"
)
_SHOWN_CHARACTERS = 40

_FORMS: Final = {"one": 1, "all": 8}  # 2 orders of assignment × 4 pairs of operands
_COMMUTATIVE = "+*"
# The same for all seeds and configs, so a question is held out everywhere or nowhere. This key
# holds out the questions in the documentation.
_SPLIT_KEY = 48
_FORM_WORD, _ORDER_WORD = 1, 2
# TFDS holds a whole shard in memory while writing it, so this bounds its memory.
_EXAMPLES_PER_SHARD = 100_000
_BLOCK = 2**16
_FEWEST_EXPRESSIONS = 1000


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
    """A parser of expressions such as `x=85,y=-52,y-x`; an error says in one line what is wrong.

        expression = "x=" integer ",y=" integer "," operand operator operand
                   | "y=" integer ",x=" integer "," operand operator operand
        operand    = "x" | "y"                      (an operand may repeat: x*x)
        integer    = decimal digits in [low, high), no leading zeros, "-" before a negative number

    Nothing else is allowed, not even spaces, because the model sees the text byte by byte.

    Args:
        low: smallest value of a variable. Defaults to -1000.
        high: one more than the largest value of a variable. Defaults to 1000.
        operators: the allowed operators, characters of "+-*". Defaults to "+-*".

    Raises:
        ValueError: the range is empty, or operators are missing, repeated or unknown.

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
        """The allowed expressions, in one line for error messages."""
        return (
            "expected 'x=INTEGER,y=INTEGER,OPERATION' or 'y=INTEGER,x=INTEGER,OPERATION' with "
            f"integers from {self.low} to {self.high - 1} and an OPERATION such as "
            f"'y{self.operators[0]}x' (operands x and y, operators {' '.join(self.operators)})"
        )

    @property
    def longest_expression(self) -> int:
        """The length of the longest expression in characters."""
        return len("x=,y=,x+y") + 2 * self._longest_value

    @property
    def longest_answer(self) -> int:
        """Length of the longest answer in characters."""
        pairs = itertools.product((self.low, self.high - 1), repeat=2)
        return max(len(str(OPERATORS[o](a, b))) for a, b in pairs for o in self.operators)

    @property
    def _longest_value(self) -> int:
        return max(len(str(self.low)), len(str(self.high - 1)))

    def parse(self, text: str | bytes) -> Expression:
        """Parse one expression into the assigned values and the operation.

        Args:
            text: the expression; bytes are read as ASCII.

        Raises:
            UserError: the text is not an expression of this grammar.
        """
        # Latin-1 decodes every byte and the pattern is ASCII, so invalid UTF-8 does not match.
        match = _PATTERN.fullmatch(text.decode("latin-1") if isinstance(text, bytes) else text)
        if match is None:
            raise UserError(f"cannot read {_shorten(text)} as an expression: {self.description}")
        if match["operator"] not in self.operators:
            raise UserError(
                f"operator {match['operator']!r} in {_shorten(text)} is not known: "
                f"{self.description}"
            )
        x = self._value("x", match["x"] or match["x_second"], text)
        y = self._value("y", match["y"] or match["y_first"], text)
        return Expression(x, y, match["left"], match["operator"], match["right"])

    def evaluate(self, text: str | bytes) -> int:
        """Return the answer to an expression; errors are as in `parse`."""
        return self.parse(text).answer

    def _value(self, name: str, digits: str, text: str | bytes) -> int:
        # Check the length first: int() rejects thousands of digits with a different error.
        too_long = len(digits) > self._longest_value
        if too_long or digits == "-0" or not self.low <= int(digits) < self.high:
            raise UserError(
                f"the value of {name} in {_shorten(text)} is not an integer from {self.low} to "
                f"{self.high - 1}: {self.description}"
            )
        return int(digits)


def _shorten(text: str | bytes) -> str:
    """Escape a text on one line; cut a long one and add its length."""
    if len(text) <= _SHOWN_CHARACTERS:
        return repr(text)
    unit = "bytes" if isinstance(text, bytes) else "characters"
    return f"{text[:_SHOWN_CHARACTERS]!r}... ({len(text)} {unit})"


@dataclasses.dataclass
class ArithmeticMluConfig(tfds.core.BuilderConfig):
    """The expressions of a data set.

    Args:
        name: name of the config and of its folder; by default, made from the other settings.
        low: smallest value of x and y. Defaults to -1000.
        high: one more than the largest value of x and y. Defaults to 1000.
        operators: characters of "+-*". Defaults to "+-*".
        forms: "one" draws one order of assignment and one pair of operands for each (x, y,
            operator), as in the paper's data; "all" writes all eight, for ranges with too few
            expressions to learn from. Defaults to "one".
        seed: determines the drawn forms and the order of the examples. Defaults to 0.

    Raises:
        ValueError: a setting is unknown, or the range is too small to split or too large to number.
    """

    name: str = ""
    low: int = -1000
    high: int = 1000
    operators: str = "+-*"
    forms: str = "one"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.forms not in _FORMS:
            raise ValueError(
                f"forms must be one of {', '.join(map(repr, _FORMS))}; got {self.forms!r}"
            )
        if self.num_expressions < _FEWEST_EXPRESSIONS or max(-self.low, self.high) > 2**24:
            raise ValueError(
                f"low and high must leave at least {_FEWEST_EXPRESSIONS} expressions and lie "
                f"within ±2^24; got low={self.low}, high={self.high}, which gives "
                f"{self.num_expressions}"
            )
        if not self.name:
            operators = "".join({"+": "p", "-": "m", "*": "t"}[o] for o in self.operators)
            self.name = f"{self.low}_to_{self.high}_{operators}_{self.forms}_seed_{self.seed}"

    @property
    def grammar(self) -> ArithmeticGrammar:
        """The grammar of this data set's expressions."""
        return ArithmeticGrammar(self.low, self.high, self.operators)

    @property
    def num_expressions(self) -> int:
        """Number of expressions in all splits together; no two have the same text."""
        grammar = self.grammar
        return (grammar.high - grammar.low) ** 2 * len(grammar.operators) * _FORMS[self.forms]


class ArithmeticMlu(GeneratedTexts):
    """Generated arithmetic questions such as `x=85,y=-523,x*y`, with answers such as `-44455`.

    There is nothing to download. Each (x, y, operator) gives one question: a hash of the seed and
    the three draws which variable is assigned first and which two operands are on both sides of the
    operator (they may be the same: `x*x`). The config `paper` (x, y in [-1000, 1000), + - *) has
    2000 · 2000 · 3 = 12,000,000 questions. The config `demo` (x, y in [-100, 100), + -) writes all
    eight forms of each (x, y, operator), 640,000 questions, because a model soon memorizes 80,000.

    Splits: test is a tenth, validation a hundredth, train the rest. A hash of the *canonical*
    expression decides, whatever the seed and the config: the two values (also an unused one), the
    operator and its operands. Both questions on each line below are therefore in the same split:

        x=85,y=-52,y-x   y=-52,x=85,y-x     the other order of assignment
        x=85,y=-52,x+y   x=85,y=-52,y+x     the other order of operands that commute
        x=85,y=-52,y-x   x=-52,y=85,x-y     the variables renamed

    A keyed bijection permutes all rows, so every split is shuffled on disk. Rows are computed by
    index, in blocks, so memory does not grow with the range.

    Source: tensor2tensor's `algorithmic_math_two_variables`, and Tay et al. 2019, section 4.3.

    ```python
    builder = ArithmeticMlu(config="demo", data_dir="data")
    builder.download_and_prepare()
    examples = builder.as_dataset(split="train")  # {"expression": ..., "answer": ...}
    ```
    """

    DESCRIPTION = "Arithmetic questions about two variables, generated by rule."
    KEYS = ("expression", "answer")
    BUILDER_CONFIGS = [
        ArithmeticMluConfig(
            name="paper", description="x, y in [-1000, 1000), + - *, one form each."
        ),
        ArithmeticMluConfig(
            name="demo",
            low=-100,
            high=100,
            operators="+-",
            forms="all",
            description="x, y in [-100, 100), + -, all eight forms.",
        ),
    ]

    def _shard_iterators_per_split(self, dl_manager: Any) -> dict[str, Any]:
        config, rows = self.builder_config, 2 ** _index_bits(self.builder_config)
        shards = {}
        for split, share in SPLITS.items():
            count = math.ceil(share * config.num_expressions / _EXAMPLES_PER_SHARD)
            edges = [shard * rows // count for shard in range(count + 1)]
            shards[split] = [
                functools.partial(generate_examples, config, split, start, stop)
                for start, stop in itertools.pairwise(edges)
            ]
        return shards


def generate_examples(
    config: ArithmeticMluConfig, split: str, start: int = 0, stop: int | None = None
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield (key, example) of one split in its shuffled order, computed in blocks of rows.

    The order has 2^⌈log2 num_expressions⌉ positions, of which `start` … `stop` − 1 are read; those
    whose row is `num_expressions` or more are empty.
    """
    split_code = list(SPLITS).index(split)
    bits = _index_bits(config)
    stop = 2**bits if stop is None else stop
    order_key = int(keyed_hash(config.seed, np.array([_ORDER_WORD]))[0])
    for block in range(start, stop, _BLOCK):
        rows = permute(np.arange(block, min(block + _BLOCK, stop)), bits, order_key)
        rows = rows[rows < config.num_expressions]
        columns = _decode(config, rows)
        chosen = _split_codes(*columns[1:]) == split_code
        # Lists of Python integers: formatting NumPy scalars one by one is slow.
        for row, x_first, x, y, left, operator, right in zip(
            rows[chosen].tolist(), *(column[chosen].tolist() for column in columns), strict=True
        ):
            expression = Expression(x, y, "yx"[left], chr(operator), "yx"[right])
            assignments = f"x={x},y={y}" if x_first else f"y={y},x={x}"
            text = f"{assignments},{expression.left}{expression.operator}{expression.right}"
            yield row, {"expression": text, "answer": str(expression.answer)}


def split_of(expression: Expression) -> str:
    """Return the split that an expression belongs to, the same in every config.

    >>> split_of(Expression(x=85, y=-52, left="y", operator="-", right="x"))
    'test'
    """
    x, y, left, operator, right = expression
    columns = (x, y, left == "x", ord(operator), right == "x")
    return list(SPLITS)[_split_codes(*(np.array([column]) for column in columns))[0]]


def _index_bits(config: ArithmeticMluConfig) -> int:
    return (config.num_expressions - 1).bit_length()


def _decode(config: ArithmeticMluConfig, rows: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return columns: whether x comes first, x, y, whether left is x, operator, right is x."""
    # All arrays are (rows,). A cell is an (x, y, operator); a form is three bits.
    cells, forms = np.divmod(rows, _FORMS[config.forms])
    if config.forms == "one":
        hashes = keyed_hash(config.seed, np.array([_FORM_WORD]), cells)
        forms = (hashes >> np.uint64(61)).astype(np.int64)
    pairs, operators = np.divmod(cells, len(config.operators))
    x, y = np.divmod(pairs, config.high - config.low)
    codes = np.array([ord(operator) for operator in config.operators])[operators]
    return forms & 4 > 0, x + config.low, y + config.low, forms & 2 > 0, codes, forms & 1 > 0


def _split_codes(
    x: np.ndarray,
    y: np.ndarray,
    left_is_x: np.ndarray,
    operators: np.ndarray,
    right_is_x: np.ndarray,
) -> np.ndarray:
    """Return indices into `SPLITS`, from a hash of the canonical expression."""
    repeated = left_is_x == right_is_x
    # The left operand's value, then the other value, because names of variables do not matter.
    first, second = np.where(left_is_x, x, y), np.where(left_is_x, y, x)
    # The operands of + and * are sorted, because their order does not matter.
    commutes = np.isin(operators, [ord(operator) for operator in _COMMUTATIVE]) & ~repeated
    smaller, larger = np.minimum(first, second), np.maximum(first, second)
    first, second = np.where(commutes, smaller, first), np.where(commutes, larger, second)
    hashed = keyed_hash(_SPLIT_KEY, operators, repeated, first, second)
    edges = np.cumsum(list(SPLITS.values()))[:-1]
    return np.searchsorted(edges, hashed / 2.0**64, side="right")
