"""The share of programs that pass their tests."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keras_quasiattn.data import ProgramTests


def program_accuracy(programs: Sequence[str | bytes], tests: Sequence["ProgramTests"]) -> float:
    """Returns the share of programs that pass all their tests.

    `exact_match` gives the share of those that equal the reference. A program fails if it cannot be
    parsed, fails a test or exceeds the interpreter's limits. A program may pass without equalling
    the reference, and a copy of the reference fails where the reference fails its own tests, as
    some published ones do.

    Args:
        programs: tokens separated by blanks, as a model wrote them.
        tests: the tests of each program's problem, in the same order. The model must not have seen
            them.

    Raises:
        ValueError: if the two differ in number, or are empty.

    >>> from keras_quasiattn.data import ProgramTests
    >>> tests = ProgramTests.from_json('[{"a":"int[]"},"int",[[{"a":[3,4]},4],[{"a":[5,1]},5]]]')
    >>> program_accuracy(["[ reduce a 0 max ]", b"[ head a ]", "[ head"], [tests] * 3)
    0.3333333333333333

    Source: Polosukhin and Skidanov 2018, "Neural Program Search", section 5 (accuracy).
    """
    if len(programs) != len(tests) or len(programs) == 0:
        raise ValueError(
            "programs and tests must have the same length, at least 1; "
            f"got {len(programs)} and {len(tests)}"
        )
    pairs = zip(programs, tests, strict=True)
    return sum(test.passed_by(_as_text(program)) for program, test in pairs) / len(programs)


def _as_text(program: str | bytes) -> str:
    return program.decode("utf-8", "replace") if isinstance(program, bytes) else program
