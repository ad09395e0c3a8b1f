"""Programs that do what they should."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keras_quasiattn.data import ProgramTests


def program_accuracy(programs: Sequence[str | bytes], tests: Sequence["ProgramTests"]) -> float:
    """Share of programs that pass all their tests; `exact_match` is the share of those that equal the reference.

    A program that cannot be read, fails on a test or exceeds the interpreter's limits does not pass. Programs
    written otherwise than the reference may pass, and where the reference itself fails its tests, as some
    published ones do, it does not.

    Args:
        programs: tokens with blanks between them, as a model wrote them.
        tests: of each program's problem, in the same order, none of them seen by the model.

    Raises:
        ValueError: If the two differ in number, or there are none.

    >>> from keras_quasiattn.data import ProgramTests
    >>> tests = ProgramTests.from_json('[{"a":"int[]"},"int",[[{"a":[3,4]},4],[{"a":[5,1]},5]]]')
    >>> program_accuracy(["[ reduce a 0 max ]", b"[ head a ]", "[ head"], [tests] * 3)
    0.3333333333333333

    Source: Polosukhin and Skidanov 2018, "Neural Program Search", section 5 (accuracy).
    """
    if len(programs) != len(tests) or len(programs) == 0:
        raise ValueError(
            f"programs and tests must be as many, and at least one; got {len(programs)} and {len(tests)}"
        )
    pairs = zip(programs, tests, strict=True)
    return sum(test.passed_by(_as_text(program)) for program, test in pairs) / len(programs)


def _as_text(program: str | bytes) -> str:
    return program.decode("utf-8", "replace") if isinstance(program, bytes) else program
