import json

import pytest

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.data.algolisp.problems import Example, Problem, ProgramTests, read_problems


def _words(text):
    return text.split(" ")


# Two published records.
DIGITS = {
    "funcs": [], "tags": [], "nodes": ["l1_recursive_digits"],
    "text": _words(
        "given a number a , find how many times you can replace a with sum of its digits "
        "before it becomes a single digit number"
    ),
    "args": {"a": "int"}, "return_type": "int",
    "short_tree": [
        "invoke1",
        ["lambda1", ["if", ["==", ["len", ["digits", "arg1"]], "1"], "0",
                     ["+", "1", ["self", ["reduce", ["digits", "arg1"], "0", "+"]]]]],
        "a",
    ],
    "tests": [
        {"output": output, "input": {"a": number}}
        for number, output in [
            (5, 0), (20, 1), (28, 2), (13, 1), (27, 1), (13, 1), (20, 1), (8, 0), (8, 0), (4, 0)
        ]
    ],
}  # fmt: skip
ODD = {
    "text": _words("consider an array of numbers a , compute elements of a that are odd"),
    "short_tree": ["filter", "a", ["lambda1", ["==", ["%", "arg1", "2"], "1"]]],
    "args": {"a": "int[]"},
    "return_type": "int[]",
    "tests": [{"input": {"a": [2, 9, 9, 17, 4, 6, 30]}, "output": [9, 9, 17]}],
}


def written(tmp_path, *records):
    file = tmp_path / "problems.jsonl"
    file.write_text("\n".join(r if isinstance(r, str) else json.dumps(r) for r in records) + "\n")
    return file


def test_published_records_are_read_and_pass_their_tests(tmp_path):
    digits, odd = read_problems(written(tmp_path, DIGITS, "", ODD))
    assert odd == Problem(
        "consider an array of numbers a , compute elements of a that are odd",
        "[ filter a [ lambda1 [ == [ % arg1 2 ] 1 ] ] ]",
        ProgramTests(
            {"a": "int[]"}, "int[]", (Example({"a": [2, 9, 9, 17, 4, 6, 30]}, [9, 9, 17]),)
        ),
    )  # fmt: skip
    assert len(digits.tests.tests) == 10
    assert digits.tests.passed_by(digits.program) and odd.tests.passed_by(odd.program)
    assert not digits.tests.passed_by("0") and not odd.tests.passed_by("a")


@pytest.mark.parametrize(
    ("record", "complaint"),
    [
        ("{", "not JSON"),
        ("[1, 2]", "a JSON object with 'text', 'short_tree', 'args', 'return_type', 'tests'"),
        ("[" * 100_000, "not JSON .*recursion"),
        (
            json.dumps(ODD).replace('"filter"', "[" * 100_000 + "]" * 100_000),
            "not JSON .*recursion",
        ),
        ({"text": ["x"], "args": {}}, "short_tree, return_type, tests missing"),
        ({**ODD, "text": "consider"}, "'text' must be a list of words"),
        ({**ODD, "text": []}, "'text' must be a list of words"),
        ({**ODD, "args": [["a", "int"]]}, "'args' must be an object"),
        ({**ODD, "args": {"a": "float"}}, "'float' is not a type"),
        ({**ODD, "return_type": None}, "None is not a type"),
        ({**ODD, "short_tree": []}, "'short_tree' must be a name or nested lists"),
        ({**ODD, "short_tree": ["filter", None]}, "'short_tree' must be a name or nested lists"),
        ({**ODD, "short_tree": ["len", [[[]]]]}, "'short_tree' must be a name or nested lists"),
        ({**ODD, "short_tree": ["len", "a b"]}, "comes after|must not contain a blank"),
        ({**ODD, "short_tree": ["len", "["]}, "token 4 closes an empty bracket"),
        ({**ODD, "tests": []}, "'tests' must be a list of objects"),
        ({**ODD, "tests": [{"input": {"a": []}}]}, "with 'input' and 'output'"),
        ({**ODD, "tests": [{"input": [], "output": []}]}, "with 'input' and 'output'"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_other_records_are_refused_with_file_and_line(tmp_path, record, complaint):
    file = written(tmp_path, ODD, record)
    with pytest.raises(UserError, match=complaint) as caught:
        list(read_problems(file))
    assert str(caught.value).startswith(f"{file}, line 2: ")
    assert len(str(caught.value)) < len(str(file)) + 200


def test_a_tree_within_the_limit_of_json_but_not_of_programs_is_refused(tmp_path):
    tree = "a"
    for _ in range(200):
        tree = ["!", tree]
    with pytest.raises(UserError, match="line 1: 'short_tree' must be a name or nested lists"):
        list(read_problems(written(tmp_path, {**ODD, "short_tree": tree})))


def test_whole_numbers_in_trees_are_names(tmp_path):
    (problem,) = read_problems(written(tmp_path, {**ODD, "short_tree": ["slice", "a", 0, 1]}))
    assert problem.program == "[ slice a 0 1 ]"


@pytest.mark.parametrize("content", ["", "\n\n"])
def test_files_without_problems_are_refused(tmp_path, content):
    file = tmp_path / "problems.jsonl"
    file.write_text(content)
    with pytest.raises(UserError, match="has no problems"):
        list(read_problems(file))
    with pytest.raises(UserError, match="cannot read"):
        list(read_problems(tmp_path / "none.jsonl"))


def test_tests_survive_json():
    tests = ProgramTests(
        {"b": "string[]", "a": "int"}, "bool", (Example({"b": ['"ñ'], "a": -1}, True),)
    )
    assert ProgramTests.from_json(tests.to_json()) == tests
    assert list(ProgramTests.from_json(tests.to_json().encode()).arguments) == ["b", "a"]
    assert "\n" not in tests.to_json()


@pytest.mark.parametrize(
    ("program", "passes"),
    [
        ("[ == a 1 ]", True),
        ("[ ! [ != a 1 ] ]", True),
        ("a", False),  # 1 and 0 are not true and false
        ("true", False),
        ("[ == a 1", False),
        ("", False),
        ("[ " * 100_000, False),
        ("[ == b 1 ]", False),
        ("[ == [ / 1 a ] 1 ]", False),
        ("==", False),
        ("[ partial0 1 == ]", False),
        ("[ invoke1 [ lambda1 [ self arg1 ] ] a ]", False),
        ("[ invoke1 [ lambda1 [ && [ self arg1 ] [ self arg1 ] ] ] a ]", False),
    ],
)
def test_programs_pass_by_their_answers(program, passes):
    tests = ProgramTests({"a": "int"}, "bool", (Example({"a": 1}, True), Example({"a": 0}, False)))
    assert tests.passed_by(program) is passes


def test_answers_are_compared_by_value_and_kind():
    tests = ProgramTests({"a": "int"}, "int[]", (Example({"a": 4}, [4, 2]),))
    assert tests.passed_by("[ append [ append [ array-new int ] a ] 2 ]")
    assert tests.passed_by("[ append [ append [ array-new int ] a ] [ sqrt a ] ]")  # 2.0 is 2
    assert not tests.passed_by("[ append [ append [ array-new int ] a ] true ]")
    assert not tests.passed_by("[ append [ array-new int ] a ]")
