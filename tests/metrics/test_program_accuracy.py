import pytest

from keras_quasiattn.data import ProgramTests
from keras_quasiattn.data.algolisp.problems import Example
from keras_quasiattn.metrics import exact_match, program_accuracy

TESTS = ProgramTests({"a": "int[]"}, "int", (Example({"a": [3, 4]}, 7), Example({"a": []}, 0)))


def test_programs_count_when_they_do_what_the_reference_does():
    reference = "[ reduce a 0 + ]"
    programs = [
        reference,
        "[ reduce [ reverse a ] 0 + ]",  # another program, the same answers
        b"[ reduce [ sort a ] 0 [ lambda2 [ + arg2 arg1 ] ] ]",
        "[ head a ]",  # fails on one test
        "[ reduce a 0 +",
        "",
        b"\xff\xfe",
        "[ invoke1 [ lambda1 [ + [ self arg1 ] [ self arg1 ] ] ] 1 ]",
    ]
    assert program_accuracy(programs, [TESTS] * 8) == 3 / 8
    assert exact_match(programs, [reference] * 8) == 1 / 8


def test_each_program_runs_on_its_own_tests():
    other = ProgramTests({"b": "int"}, "int", (Example({"b": 2}, 4),))
    assert program_accuracy(["[ square b ]", "[ square b ]"], [other, TESTS]) == 0.5


@pytest.mark.parametrize("pair", [([], []), (["a"], []), (["a"], [TESTS, TESTS])])
def test_unlike_lists_are_refused(pair):
    with pytest.raises(ValueError, match=f"got {len(pair[0])} and {len(pair[1])}"):
        program_accuracy(*pair)
