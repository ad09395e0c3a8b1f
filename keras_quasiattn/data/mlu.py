"""Mathematical language understanding (MLU): generated arithmetic questions as a TFDS data set."""

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np
import tensorflow_datasets as tfds

from keras_quasiattn.data.arithmetic import ArithmeticGrammar, Expression
from keras_quasiattn.data.hashing import keyed_hash, permute

# Shares of all expressions; validation is taken from the nine tenths that are not test.
SPLITS: Final = {"train": 0.89, "validation": 0.01, "test": 0.10}

_FORMS: Final = {"one": 1, "all": 8}  # 2 orders of assignment × 4 pairs of operands
_COMMUTATIVE = "+*"
# The same for all seeds and configs, so that a question is held out everywhere or nowhere. With
# this key, the documentation's questions are held out.
_SPLIT_KEY = 48
_FORM_WORD, _ORDER_WORD = 1, 2
# TFDS holds a whole shard in memory while writing it, so this bounds its memory.
_EXAMPLES_PER_SHARD = 100_000
_BLOCK = 2**16
_FEWEST_EXPRESSIONS = 1000


@dataclasses.dataclass
class ArithmeticMluConfig(tfds.core.BuilderConfig):
    """Which expressions a data set holds.

    Args:
        name: Name of the config and of its folder. By default it is made from the other settings,
            so that changed settings never reuse old files.
        low: Smallest value of x and y.
        high: One more than the largest value of x and y.
        operators: Characters of "+-*".
        forms: "one" draws one order of assignment and one pair of operands for each (x, y,
            operator), as in the paper's data; "all" writes all eight, for ranges with too few
            expressions to learn from.
        seed: Determines the drawn forms and the order of the examples.

    Raises:
        ValueError: If a setting is unknown, or the range is too small to split or too large to
            number.
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


class ArithmeticMlu(tfds.core.ShardBasedBuilder):
    """Generated arithmetic questions such as `x=85,y=-523,x*y`, with answers such as `-44455`.

    There is nothing to download. Each (x, y, operator) gives one question: a hash of the seed and
    the three draws which variable is assigned first and which two operands are on both sides of the
    operator (they may be the same: `x*x`). The config `paper` (x, y in [-1000, 1000), + - *) has
    2000 · 2000 · 3 = 12,000,000 questions. The config `demo` (x, y in [-100, 100), + -) writes all
    eight forms of each (x, y, operator), 640,000 questions, because a model soon memorizes 80,000.

    Splits: test is a tenth, validation a hundredth, train the rest. A hash of the *canonical*
    expression decides: the values, the operator and which values it takes. So both questions on
    each line below are one expression, which falls into one split:

        x=85,y=-52,y-x   y=-52,x=85,y-x     the other order of assignment
        x=85,y=-52,x+y   x=85,y=-52,y+x     the other order of operands that commute
        x=85,y=-52,y-x   x=-52,y=85,x-y     the variables renamed

    The value of an unused variable is part of the expression: `x=85,y=-52,x*x` and `x=85,y=7,x*x`
    are two expressions, as in the paper's random split. The split of an expression depends on
    neither seed nor config, so no test question of one config is a training question of another.

    Order: a keyed bijection permutes all rows, so every split is shuffled on disk. Memory does not
    grow with the range, because rows are computed by index, in blocks. (A `GeneratorBasedBuilder`
    would hold up to a gigabyte of records to shuffle them; a `ShardBasedBuilder` writes as it
    goes.)

    Source: tensor2tensor's `algorithmic_math_two_variables`, and Tay et al. 2019, section 4.3.

    ```python
    builder = ArithmeticMlu(config="demo", data_dir="data")
    builder.download_and_prepare()
    examples = builder.as_dataset(split="train")  # {"expression": ..., "answer": ...}
    ```
    """

    VERSION = tfds.core.Version("1.0.0")
    RELEASE_NOTES = {"1.0.0": "First version."}
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

    def _info(self) -> tfds.core.DatasetInfo:
        return tfds.core.DatasetInfo(
            builder=self,
            description="Arithmetic questions about two variables, generated by rule.",
            features=tfds.features.FeaturesDict(
                {"expression": tfds.features.Text(), "answer": tfds.features.Text()}
            ),
            supervised_keys=("expression", "answer"),
            disable_shuffling=True,  # the rows are shuffled already; read files in order
        )

    def _shard_iterators_per_split(
        self, dl_manager: tfds.download.DownloadManager
    ) -> Mapping[str, Sequence[Callable[[], Iterator[tuple[int, dict[str, str]]]]]]:
        config = self.builder_config
        shards: dict[str, list[Callable[[], Iterator[tuple[int, dict[str, str]]]]]] = {}
        for split, share in SPLITS.items():
            num_shards = math.ceil(share * config.num_expressions / _EXAMPLES_PER_SHARD)
            edges = [
                shard * 2 ** _index_bits(config) // num_shards for shard in range(num_shards + 1)
            ]
            shards[split] = [
                functools.partial(generate_examples, config, split, start, stop)
                for start, stop in itertools.pairwise(edges)
            ]
        return shards


def generate_examples(
    config: ArithmeticMluConfig, split: str, start: int = 0, stop: int | None = None
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yields (key, example) of one split in its shuffled order, one block of rows at a time.

    Args:
        config: Which expressions there are.
        split: "train", "validation" or "test".
        start: First position in the shuffled order, which has 2^⌈log2 num_expressions⌉ positions.
            Positions whose row is `num_expressions` or more are empty.
        stop: The position to stop before; None for the end.
    """
    split_code = list(SPLITS).index(split)
    bits = _index_bits(config)
    for block in range(start, 2**bits if stop is None else stop, _BLOCK):
        positions = np.arange(block, min(block + _BLOCK, 2**bits if stop is None else stop))
        rows = permute(positions, bits, int(keyed_hash(config.seed, np.array([_ORDER_WORD]))[0]))
        rows = rows[rows < config.num_expressions]
        columns = _decode(config, rows)
        chosen = _split_codes(*columns[1:]) == split_code
        # Lists of Python integers: formatting NumPy scalars one by one is slow.
        for row, x_first, x, y, left, operator, right in zip(
            rows[chosen].tolist(), *(column[chosen].tolist() for column in columns), strict=True
        ):
            expression = Expression(x, y, "yx"[left], chr(operator), "yx"[right])
            yield row, {"expression": _write(expression, x_first), "answer": str(expression.answer)}


def split_of(expression: Expression) -> str:
    """The split ("train", "validation" or "test") of an expression, the same in every config.

    >>> split_of(Expression(x=85, y=-52, left="y", operator="-", right="x"))
    'test'
    """
    x, y, left, operator, right = expression
    columns = (x, y, left == "x", ord(operator), right == "x")
    return list(SPLITS)[_split_codes(*(np.array([column]) for column in columns))[0]]


def _write(expression: Expression, x_first: bool) -> str:
    x, y, left, operator, right = expression
    assignments = f"x={x},y={y}" if x_first else f"y={y},x={x}"
    return f"{assignments},{left}{operator}{right}"


def _index_bits(config: ArithmeticMluConfig) -> int:
    return (config.num_expressions - 1).bit_length()


def _decode(config: ArithmeticMluConfig, rows: np.ndarray) -> tuple[np.ndarray, ...]:
    """Columns: x is assigned first, x, y, left is x, the operator's character code, right is x."""
    # All arrays are (rows,). A cell is an (x, y, operator); a form is three bits.
    cells, forms = np.divmod(rows, _FORMS[config.forms])
    if config.forms == "one":
        forms = (keyed_hash(config.seed, np.array([_FORM_WORD]), cells) >> np.uint64(61)).astype(
            np.int64
        )
    pairs, operators = np.divmod(cells, len(config.operators))
    x, y = np.divmod(pairs, config.high - config.low)
    codes = np.array([ord(operator) for operator in config.operators])
    return (
        forms & 4 > 0,
        x + config.low,
        y + config.low,
        forms & 2 > 0,
        codes[operators],
        forms & 1 > 0,
    )


def _split_codes(
    x: np.ndarray,
    y: np.ndarray,
    left_is_x: np.ndarray,
    operators: np.ndarray,
    right_is_x: np.ndarray,
) -> np.ndarray:
    """Index into `SPLITS`, from a hash of the canonical expression."""
    repeated = left_is_x == right_is_x
    # The left operand's value, then the other value: the names of the variables no longer matter.
    first = np.where(left_is_x, x, y)
    second = np.where(left_is_x, y, x)
    # Nor does the order of the operands of + and *: they are sorted.
    commutes = np.isin(operators, [ord(operator) for operator in _COMMUTATIVE]) & ~repeated
    smaller, larger = np.minimum(first, second), np.maximum(first, second)
    hashed = keyed_hash(
        _SPLIT_KEY,
        operators,
        repeated,
        np.where(commutes, smaller, first),
        np.where(commutes, larger, second),
    )
    edges = np.cumsum(list(SPLITS.values()))[:-1]
    return np.searchsorted(edges, hashed / 2.0**64, side="right")
