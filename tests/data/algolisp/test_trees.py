import pytest

from keras_quasiattn.data.algolisp.language import (
    MAX_NESTING,
    ProgramError,
    parse_program,
    write_program,
)


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a", "a"),
        (
            "[ filter a [ lambda1 [ == [ % arg1 2 ] 1 ] ] ]",
            ["filter", "a", ["lambda1", ["==", ["%", "arg1", "2"], "1"]]],
        ),
        ('[ str_split a " " ]', ["str_split", "a", '" "']),
        ('[ str_concat "" "z" ]', ["str_concat", '""', '"z"']),
    ],
)
def test_tokens_and_trees_are_two_ways_to_write_one_program(text, tree):
    assert parse_program(text) == tree
    assert write_program(tree) == text


def test_blanks_between_tokens_may_be_many():
    assert parse_program("  [ +\ta  1\n]") == ["+", "a", "1"]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "the program is empty"),
        ("  ", "the program is empty"),
        ("[ + a", "ends with 1 open brackets"),
        ("[ + [ a", "ends with 2 open brackets"),
        ("[ + a ] ]", "token 5, ']', comes after the end"),
        ("a b", "token 2, 'b', comes after the end"),
        ("[ a ] [ b ]", r"token 4, '\[', comes after the end"),
        ("] a", "token 1 closes a bracket that was never opened"),
        ("[ + [ ] a ]", "token 4 closes an empty bracket"),
        ("[ ]", "token 2 closes an empty bracket"),
        ("a " + "x" * 1000, r"token 2, 'x{40}'\.\.\., comes"),
        ("[ " * 100_000, f"token {MAX_NESTING + 1} nests brackets more than {MAX_NESTING} deep"),
        (
            "[ " * 100_000 + "a" + " ]" * 100_000,
            f"token {MAX_NESTING + 1} nests brackets more than {MAX_NESTING} deep",
        ),
        ("] " * 100_000, "token 1 closes"),
    ],
    ids=lambda text: repr(text[:20]),
)
def test_what_is_no_program_is_refused_at_its_token(text, complaint):
    with pytest.raises(ProgramError, match=complaint) as caught:
        parse_program(text)
    assert len(str(caught.value)) < 120


def test_the_deepest_program_is_read_and_written():
    text = "[ ! " * MAX_NESTING + "true" + " ]" * MAX_NESTING
    assert write_program(parse_program(text)) == text
