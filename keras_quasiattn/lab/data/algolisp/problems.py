"""Problems: a text, the program it asks for, and tests for checking any other program."""

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow_datasets as tfds

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.data.algolisp.language import (
    MAX_NESTING,
    Program,
    ProgramError,
    Tree,
    are_equal,
    check_type,
    parse_program,
    write_program,
)
from keras_quasiattn.lab.data.examples import (
    LabelledTextSet,
    ParallelTexts,
    columns_from_tfds,
    files_version,
    text_array,
)
from keras_quasiattn.lab.data.table_files import read_objects
from keras_quasiattn.lab.text import open_text

_KEYS = ("text", "short_tree", "args", "return_type", "tests")


class Example(NamedTuple):
    """The inputs of a program by argument, and the output that is expected."""

    inputs: Mapping[str, Any]
    output: Any


@dataclasses.dataclass(frozen=True)
class ProgramTests:
    """The tests of one problem.

    Args:
        arguments: type of each argument by name, as in `Program`.
        return_type: type of the answers.
        tests: inputs with the correct answers.

    >>> tests = ProgramTests({"a": "int"}, "int", (Example({"a": 3}, 4),))
    >>> tests.passed_by("[ + a 1 ]"), tests.passed_by("[ + a 2 ]"), tests.passed_by("[ +")
    (True, False, False)
    """

    arguments: Mapping[str, str]
    return_type: str
    tests: tuple[Example, ...]

    def passed_by(self, program: str) -> bool:
        """Return whether a program runs and answers every test correctly."""
        try:
            runnable = Program(program, self.arguments)
            return all(are_equal(runnable.run(test.inputs), test.output) for test in self.tests)
        except ProgramError:
            return False

    def to_json(self) -> str:
        """Write the tests as one line, which `from_json` reads."""
        return json.dumps([self.arguments, self.return_type, self.tests], separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str | bytes) -> "ProgramTests":
        """Read the tests that `to_json` wrote."""
        arguments, return_type, tests = json.loads(text)
        return cls(arguments, return_type, tuple(Example(*test) for test in tests))


@dataclasses.dataclass(frozen=True)
class Problem:
    """A text and the program it asks for."""

    text: str
    program: str
    tests: ProgramTests


@dataclasses.dataclass(frozen=True)
class ProgramTexts(ParallelTexts):
    """Texts and the programs that they ask for.

    Args:
        source: object (problems,), UTF-8 bytes, the texts.
        target: object (problems,), UTF-8 bytes, the programs.
        tests: object (problems,), JSON for `ProgramTests.from_json`.
    """

    tests: np.ndarray

    @property
    def columns(self) -> dict[str, np.ndarray]:
        """Return the texts and the programs."""
        return {"source": self.source, "target": self.target}

    @property
    def split_key(self) -> np.ndarray:
        """The programs, so that a program is held out with all its texts."""
        return self.target


def programs_from_tfds(
    builder: tfds.core.DatasetBuilder, splits: Sequence[str]
) -> LabelledTextSet[ProgramTexts]:
    """Read the splits of a prepared `GeneratedAlgoLisp`."""
    read = {
        split: ProgramTexts(*columns_from_tfds(builder, split, ("text", "program", "tests")))
        for split in splits
    }
    return LabelledTextSet((), read, builder.info.full_name)


def programs_from_files(files: Mapping[str, str | Path]) -> LabelledTextSet[ProgramTexts]:
    """Read a file per split in AlgoLisp's published format; see `read_problems`."""
    read = {split: programs_from_file(file) for split, file in files.items()}
    return LabelledTextSet((), read, files_version(files.values()))


def programs_from_file(file: str | Path) -> ProgramTexts:
    """Read one file like `programs_from_files`."""
    rows = [(one.text, one.program, one.tests.to_json()) for one in read_problems(file)]
    columns = zip(*rows, strict=True)
    return ProgramTexts(*(text_array(text.encode() for text in column) for column in columns))


def read_problems(file: str | Path) -> Iterator[Problem]:
    """Yield the problems of a file in AlgoLisp's published format, one at a time.

    Each line is a JSON object with `text` (a list of words), `short_tree` (nested lists of names),
    `args` (types by name), `return_type` and `tests` (objects with `input` and `output`); other
    keys are ignored. Programs are not run on their tests: some published programs fail theirs. The
    file may be compressed (.gz, .xz).

    Raises:
        UserError: a line is not JSON, a key is missing or a value has another form (the message
            names file and line); or the file cannot be read or has no problems.
    """
    file, number = Path(file), 0
    with open_text(file) as stream:
        for number, record in read_objects(file, stream, _KEYS):
            try:
                yield _problem_of(record)
            except (ValueError, RecursionError) as error:
                raise UserError(f"{file}, line {number}: {error}") from None
    if not number:
        raise UserError(f"{file} has no problems")


def _problem_of(record: Mapping[str, Any]) -> Problem:
    if missing := [key for key in _KEYS if key not in record]:
        raise ValueError(f"{', '.join(missing)} missing from the problem")
    text, tree, arguments, return_type, tests = (record[key] for key in _KEYS)
    _require(_is_list(text, str), "'text' must be a list of words", text)
    by_name = "'args' must be an object with the type of each argument by its name"
    _require(isinstance(arguments, dict), by_name, arguments)
    for type_name in (*arguments.values(), return_type):
        check_type(type_name)
    tree = _tree_of(tree, MAX_NESTING)
    program = write_program(tree)
    _require(
        parse_program(program) == tree, "a name in 'short_tree' must not contain a blank", tree
    )
    whole = _is_list(tests, dict) and all(
        isinstance(test.get("input"), dict) and "output" in test for test in tests
    )
    _require(whole, "'tests' must be a list of objects with 'input' and 'output'", tests)
    examples = tuple(Example(test["input"], test["output"]) for test in tests)
    return Problem(" ".join(text), program, ProgramTests(arguments, return_type, examples))


def _is_list(value: Any, kind: type) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, kind) for one in value)


def _require(holds: bool, right: str, got: Any) -> None:
    if not holds:
        raise ValueError(f"{right}; got {got!r:.60}")


def _tree_of(value: Any, nesting: int) -> Tree:
    if isinstance(value, list) and value and nesting:
        return [_tree_of(part, nesting - 1) for part in value]
    named = (isinstance(value, str) and value != "") or type(value) is int
    right = f"'short_tree' must be a name or nested lists of names, at most {MAX_NESTING} deep"
    _require(named, right, value)
    return str(value)
