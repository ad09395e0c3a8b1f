"""How programs of AlgoLisp are written, and what they compute."""

import math
import time
from random import Random

import pytest

from keras_quasiattn.lab.data.algolisp.language import (
    CONSTANTS,
    FUNCTIONS,
    MAX_DEPTH,
    MAX_NESTING,
    Program,
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


# Every constant and function, with its edge cases.
TYPES = {
    **dict.fromkeys("ijkn", "int"),
    **dict.fromkeys("ab", "int[]"),
    **dict.fromkeys("st", "string"),
    **dict.fromkeys("pq", "bool"),
    **{"c": "int[][]", "w": "string[]"},
}


def run(program, max_steps=100_000, **inputs):
    return Program(program, {name: TYPES[name] for name in inputs}).run(inputs, max_steps)


VALUES = [
    ("0", {}, 0),
    ("1", {}, 1),
    ("2", {}, 2),
    ("10", {}, 10),
    ("40", {}, 40),
    ("1000000000", {}, 10**9),
    ("inf", {}, math.inf),
    ('""', {}, ""),
    ('" "', {}, " "),
    ('"z"', {}, "z"),
    ("true", {}, True),
    ("false", {}, False),
    ("[ array-new int ]", {}, []),
    ("[ + i j ]", {"i": 2, "j": -5}, -3),
    ("[ - i j ]", {"i": 2, "j": -5}, 7),
    ("[ * i j ]", {"i": 2, "j": -5}, -10),
    ("[ / i j ]", {"i": 7, "j": 2}, 3),
    ("[ / i j ]", {"i": -7, "j": 2}, -4),
    ("[ / [ sqrt i ] j ]", {"i": 9, "j": 2}, 1.5),
    ("[ / i inf ]", {"i": 5}, 0.0),
    ("[ % i j ]", {"i": 7, "j": 3}, 1),
    ("[ % i j ]", {"i": -7, "j": 3}, 2),
    ("[ pow i j ]", {"i": 3, "j": 4}, 81),
    ("[ pow i j ]", {"i": 0, "j": 0}, 1),
    ("[ pow i j ]", {"i": 2, "j": -1}, 0.5),
    ("[ pow i j ]", {"i": 1, "j": 10**12}, 1),
    ("[ pow i j ]", {"i": -1, "j": 10**12}, 1),
    ("[ pow i j ]", {"i": -1, "j": 10**12 + 1}, -1),
    ("[ pow i j ]", {"i": 0, "j": 10**12}, 0),
    ("[ pow i j ]", {"i": 2, "j": 4095}, 2**4095),
    ("[ sqrt i ]", {"i": 16}, 4.0),
    ("[ floor [ sqrt i ] ]", {"i": 17}, 4),
    ("[ floor [ - 0 [ sqrt i ] ] ]", {"i": 2}, -1),
    ("[ ! p ]", {"p": True}, False),
    ("[ || p q ]", {"p": False, "q": True}, True),
    ("[ && p q ]", {"p": False, "q": True}, False),
    ("[ < i j ]", {"i": 1, "j": 1}, False),
    ("[ <= i j ]", {"i": 1, "j": 1}, True),
    ("[ > i j ]", {"i": 2, "j": 1}, True),
    ("[ >= i j ]", {"i": 0, "j": 1}, False),
    ("[ < s t ]", {"s": "ab", "t": "b"}, True),
    ("[ < p q ]", {"p": False, "q": True}, True),
    ("[ < i inf ]", {"i": 10**300}, True),
    ("[ == a b ]", {"a": [1, 2], "b": [1, 2]}, True),
    ("[ == a b ]", {"a": [1, 2], "b": [1]}, False),
    ("[ == i p ]", {"i": 1, "p": True}, False),
    ("[ == i s ]", {"i": 1, "s": "1"}, False),
    ("[ == i [ sqrt j ] ]", {"i": 2, "j": 4}, True),
    ("[ != a b ]", {"a": [1, 2], "b": [2, 1]}, True),
    ("[ != s s ]", {"s": "x"}, False),
    ("[ range i j ]", {"i": 2, "j": 5}, [2, 3, 4]),
    ("[ range i j ]", {"i": 5, "j": 2}, []),
    ("[ len [ range i j ] ]", {"i": 0, "j": 1000}, 1000),
    ("[ len a ]", {"a": []}, 0),
    ("[ len w ]", {"w": ["x", "y"]}, 2),
    ("[ head a ]", {"a": [3, 4]}, 3),
    ("[ tail a ]", {"a": [3, 4]}, [4]),
    ("[ tail a ]", {"a": []}, []),
    ("[ deref a i ]", {"a": [3, 4], "i": 1}, 4),
    ("[ int-deref a i ]", {"a": [3, 4], "i": 0}, 3),
    ("[ slice a i j ]", {"a": [1, 2, 3, 4], "i": 1, "j": 3}, [2, 3]),
    ("[ slice a i j ]", {"a": [1, 2, 3, 4], "i": -2, "j": 99}, [1, 2, 3, 4]),
    ("[ slice a i j ]", {"a": [1, 2, 3, 4], "i": 1, "j": -1}, [2, 3]),
    ("[ slice a i j ]", {"a": [1, 2, 3, 4], "i": 3, "j": 1}, []),
    ("[ append a i ]", {"a": [1], "i": 2}, [1, 2]),
    ("[ append [ array-new int ] a ]", {"a": [1]}, [[1]]),
    ("[ sort a ]", {"a": [3, -1, 2, 2]}, [-1, 2, 2, 3]),
    ("[ sort w ]", {"w": ["b", "ab"]}, ["ab", "b"]),
    ("[ sort a ]", {"a": []}, []),
    ("[ reverse a ]", {"a": [1, 2, 3]}, [3, 2, 1]),
    ("[ strlen s ]", {"s": ""}, 0),
    ("[ strlen s ]", {"s": "añ"}, 2),
    ("[ str_index i s ]", {"i": 1, "s": "abc"}, "b"),
    ("[ str_concat s t ]", {"s": "ab", "t": "c"}, "abc"),
    ("[ str_split s t ]", {"s": " a  bc ", "t": " "}, ["a", "bc"]),
    ("[ dict-keys [ dict-new int int ] ]", {}, []),
    (
        "[ dict-keys [ dict-insert [ dict-insert [ dict-new int int ] i 1 ] j 1 ] ]",
        {"i": 5, "j": 3},
        [3, 5],
    ),
    (
        "[ dict-keys [ reduce a [ dict-new int int ] [ partial2 1 dict-insert ] ] ]",
        {"a": [2, 1, 2]},
        [1, 2],
    ),
    ("[ square i ]", {"i": -3}, 9),
    ("[ min i j ]", {"i": -3, "j": 2}, -3),
    ("[ max i j ]", {"i": -3, "j": 2}, 2),
    ("[ reduce a inf min ]", {"a": []}, math.inf),
    ("[ str_min s t ]", {"s": "b", "t": "ab"}, "ab"),
    ("[ str_max s t ]", {"s": "b", "t": "ab"}, "b"),
    ("[ contains a i ]", {"a": [1, 2], "i": 2}, True),
    ("[ contains w s ]", {"w": [], "s": "x"}, False),
    ("[ is_sorted a ]", {"a": []}, True),
    ("[ is_sorted a ]", {"a": [1, 1, 2]}, True),
    ("[ is_sorted a ]", {"a": [1, 3, 2]}, False),
    ("[ abs i ]", {"i": -4}, 4),
    ("[ digits i ]", {"i": 0}, [0]),
    ("[ digits i ]", {"i": -1203}, [1, 2, 0, 3]),
    (
        "[ filter a is_prime ]",
        {"a": [*range(-3, 30), 961, 997]},
        [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 997],
    ),
]


@pytest.mark.parametrize(("program", "inputs", "value"), VALUES)
def test_values_of_functions(program, inputs, value):
    answer = run(program, **inputs)
    assert answer == value
    assert type(answer) is type(value)


def test_every_function_and_constant_is_tried():
    tried = {token for program, _, _ in VALUES for token in program.split()} | {'" "'}
    assert {*FUNCTIONS, *CONSTANTS} <= tried


@pytest.mark.parametrize(
    ("program", "inputs", "complaint"),
    [
        ("[ / i 0 ]", {"i": 1}, "/: .*zero"),
        ("[ % i 0 ]", {"i": 1}, "%: .*zero"),
        ("[ pow 0 i ]", {"i": -1}, "pow: .*zero|pow: 0.0"),
        ("[ pow 10 i ]", {"i": 10**9}, "more than 4096 bits"),
        ("[ pow 2 i ]", {"i": 4096}, "more than 4096 bits"),
        ("[ pow [ sqrt 2 ] i ]", {"i": 10**9}, "pow: "),
        ("[ pow [ - 0 [ sqrt 2 ] ] [ sqrt 2 ] ]", {}, "root of a negative"),
        ("[ * i i ]", {"i": 2**2048}, "more than 4096 bits"),
        ("[ + i [ sqrt 2 ] ]", {"i": 2**4000}, r"\+: int too large"),
        ("[ sqrt i ]", {"i": -1}, "sqrt: "),
        ("[ sqrt i ]", {"i": 2**4000}, "sqrt: int too large"),
        ("[ floor inf ]", {}, "cannot convert inf to a whole number"),
        ("[ range 0 i ]", {"i": 1001}, "more than 1000 numbers"),
        ("[ range 0 inf ]", {}, "more than 1000 numbers"),
        ("[ head a ]", {"a": []}, "no element 0: the length is 0"),
        ("[ deref a i ]", {"a": [1], "i": 1}, "no element 1"),
        ("[ deref a i ]", {"a": [1], "i": -1}, "no element -1"),
        ("[ deref a [ sqrt 2 ] ]", {"a": [1, 2, 3]}, r"no element 1\.4"),
        ("[ deref a [ - inf inf ] ]", {"a": [1]}, "no element nan"),
        ("[ str_index i s ]", {"i": -1, "s": "ab"}, "no element -1"),
        ("[ str_split s t ]", {"s": "ab", "t": ""}, "str_split: empty separator"),
        ("[ append [ array-new int ] [ append [ array-new int ] a ] ]", {"a": [1]}, "nested array"),
        ("[ append a [ dict-new int int ] ]", {"a": [1]}, "array can only hold .*, not dictionary"),
        ("[ append a int ]", {"a": [1]}, "array can only hold .*, not type"),
        ("[ dict-insert [ dict-new int int ] a 1 ]", {"a": [1]}, "dict-insert: unhashable"),
        (
            "[ dict-keys [ dict-insert [ dict-insert [ dict-new int int ] 1 1 ] s 1 ] ]",
            {"s": "x"},
            "cannot compare number with string",
        ),
        ("[ sort [ append a s ] ]", {"a": [1], "s": "x"}, "cannot compare number with string"),
        ("[ sort [ append [ array-new int ] a ] ]", {"a": [1]}, "cannot compare array with array"),
        ("[ is_sorted [ append a s ] ]", {"a": [1], "s": "x"}, "cannot compare number with string"),
        ("[ < a a ]", {"a": [1]}, "cannot compare array with array"),
        ("[ < i s ]", {"i": 1, "s": "x"}, "cannot compare number with string"),
        ("[ is_prime i ]", {"i": 1_100_009}, "more than 1000 numbers"),
        ("[ digits [ sqrt 2 ] ]", {}, "digits: "),
        ("[ + i s ]", {"i": 1, "s": "x"}, r"argument 2 of \+ must be number, not string"),
        ("[ + p i ]", {"p": True, "i": 1}, r"argument 1 of \+ must be number, not truth value"),
        ("[ && p i ]", {"p": True, "i": 1}, "argument 2 of && must be truth value, not number"),
        ("[ len s ]", {"s": "x"}, "argument 1 of len must be array, not string"),
        ("[ == i + ]", {"i": 1}, "argument 2 of == must be a value, not function"),
    ],
)
def test_errors_of_functions(program, inputs, complaint):
    with pytest.raises(ProgramError, match=complaint):
        run(program, **inputs)


def test_inputs_are_never_changed():
    inputs = {"a": [3, 1, 2], "w": ["b", "a"]}
    for program in (
        *("[ sort a ]", "[ append a 1 ]", "[ reverse w ]", "[ tail a ]", "[ slice a 0 10 ]"),
    ):
        run(program, **inputs)
    assert inputs == {"a": [3, 1, 2], "w": ["b", "a"]}


# Running programs.
FIBONACCI = (
    "[ invoke1 [ lambda1 [ if [ < arg1 2 ] 1 "
    "[ + [ self [ - arg1 2 ] ] [ self [ - arg1 1 ] ] ] ] ] n ]"
)
PARTIALS = ("partial0", "partial1", "partial2")
ARITIES = {
    **{name: len(function.kinds) for name, function in FUNCTIONS.items()},
    **dict.fromkeys(("lambda1", "lambda2"), 1),
    **dict.fromkeys(("map", "filter", "invoke1", "combine", *PARTIALS), 2),
    **dict.fromkeys(("if", "reduce"), 3),
}
THOUSAND = "[ range 0 [ * 10 [ * 10 10 ] ] ]"
_TWICE = "[ dict-insert [ dict-insert [ dict-new int int ] 0 arg1 ] 1 arg1 ]"
DOUBLED = f"[ reduce {THOUSAND} [ dict-new int int ] [ lambda2 {_TWICE} ] ]"


@pytest.mark.parametrize(
    ("program", "inputs", "value"),
    [
        ("a", {"a": [1]}, [1]),
        ("[ + n [ len a ] ]", {"n": 2, "a": [1]}, 3),
        ("[ if p n [ / n 0 ] ]", {"p": True, "n": 3}, 3),
        ("[ if p [ / n 0 ] n ]", {"p": False, "n": 3}, 3),
        ("[ invoke1 [ if p square abs ] n ]", {"p": True, "n": -3}, 9),
        ("[ invoke1 [ if p square abs ] n ]", {"p": False, "n": -3}, 3),
        ("[ reduce a 0 + ]", {"a": [1, 2, 3]}, 6),
        ("[ reduce a 10 - ]", {"a": [1, 2, 3]}, 4),
        ("[ reduce a n + ]", {"a": [], "n": 7}, 7),
        ("[ map a square ]", {"a": [1, -2]}, [1, 4]),
        ("[ map [ range 0 n ] [ lambda1 [ range 0 arg1 ] ] ]", {"n": 3}, [[], [0], [0, 1]]),
        ("[ map c len ]", {"c": [[1], [], [2, 3]]}, [1, 0, 2]),
        ("[ filter a is_prime ]", {"a": [4, 5, 6, 7]}, [5, 7]),
        ("[ invoke1 [ lambda1 [ * arg1 arg1 ] ] n ]", {"n": 5}, 25),
        ("[ reduce a 0 [ lambda2 [ - arg2 arg1 ] ] ]", {"a": [1, 2, 3]}, 2),
        ("[ map a [ partial0 10 - ] ]", {"a": [1, 2]}, [9, 8]),
        ("[ map a [ partial1 10 - ] ]", {"a": [1, 2]}, [-9, -8]),
        ("[ len [ invoke1 [ partial1 0 [ partial2 n slice ] ] a ] ]", {"a": [1, 2, 3], "n": 2}, 2),
        ("[ map a [ combine [ partial0 1 + ] square ] ]", {"a": [1, 2]}, [2, 5]),
        ("[ reduce [ append [ array-new int ] n ] 2 [ combine [ partial0 1 + ] * ] ]", {"n": 3}, 7),
        ("[ filter a [ combine [ combine ! is_prime ] square ] ]", {"a": [1, 2]}, [1, 2]),
        ("[ map c [ lambda1 [ map arg1 square ] ] ]", {"c": [[1, 2], [3]]}, [[1, 4], [9]]),
        # A name means what it means where the function is defined.
        ("[ map a [ lambda1 [ reduce b arg1 [ lambda2 [ + arg1 arg2 ] ] ] ] ]",
         {"a": [3, 4], "b": [1, 2]}, [6, 7]),
        ("[ map a [ lambda1 [ + arg1 [ head [ map b [ lambda1 arg1 ] ] ] ] ] ]",
         {"a": [3, 4], "b": [1, 2]}, [4, 5]),
        ("[ reduce a 0 [ lambda2 [ + arg1 [ invoke1 [ lambda1 [ + arg1 arg2 ] ] 10 ] ] ] ]",
         {"a": [1, 2]}, 23),
        (FIBONACCI, {"n": 10}, 89),
        ("[ reduce [ map [ range 0 [ strlen s ] ] [ partial1 s str_index ] ] \"\" "
         "[ lambda2 [ str_concat arg2 arg1 ] ] ]",
         {"s": "abc"}, "cba"),
    ],
)  # fmt: skip
def test_values(program, inputs, value):
    assert run(program, **inputs) == value


@pytest.mark.parametrize(
    ("program", "complaint"),
    [
        ("unknown", "unknown name 'unknown'"),
        ("[ unknown 1 ]", "unknown name 'unknown'"),
        ("3", "unknown name '3'"),
        ("[ + 1 arg1 ]", "unknown name 'arg1'"),
        ("[ self 1 ]", "unknown name 'self'"),
        ("[ lambda1 [ + arg1 arg2 ] ]", "unknown name 'arg2'"),
        ("[ if true 1 unknown ]", "unknown name 'unknown'"),
        ("[ + 1 ]", r"\+ takes 2 arguments, not 1"),
        ("[ len a a ]", "len takes 1 arguments, not 2"),
        ("[ if true 1 ]", "if takes 3 arguments, not 2"),
        ("[ lambda1 1 1 ]", "lambda1 takes 1 arguments, not 2"),
        ("[ map a ]", "map takes 2 arguments, not 1"),
        ("[ partial0 1 ]", "partial0 takes 2 arguments, not 1"),
        ("[ 1 ]", "1 is not a function"),
        ('[ "z" 1 ]', '"z" is not a function'),
        ("[ map a if ]", "if is not a value; it can only be called"),
        ("[ [ partial0 1 + ] 1 ]", "a call begins with a bracket"),
    ],
)
def test_programs_that_cannot_be_right_are_refused_before_they_run(program, complaint):
    with pytest.raises(ProgramError, match=complaint):
        Program(program, {"a": "int[]"})


@pytest.mark.parametrize(
    ("program", "complaint"),
    [
        ("[ a 1 ]", "only a function can be called, not array"),
        ("[ map a a ]", "argument 2 of map must be function, not array"),
        ("[ map n square ]", "argument 1 of map must be array, not number"),
        ("[ map a + ]", r"\+ takes 2 arguments, not 1"),
        ("[ map a [ lambda2 arg1 ] ]", "a function takes 2 arguments, not 1"),
        ("[ map a [ partial2 1 + ] ]", "partial2 takes 2 or more arguments, not 1"),
        ("[ map a [ lambda1 abs ] ]", "an array can only hold .*, not function"),
        (
            "[ map [ range 0 1 ] [ lambda1 [ append [ array-new int ] "
            "[ append [ array-new int ] a ] ] ] ]",
            "nested",
        ),
        ("[ filter a square ]", "the condition of filter must be a truth value, not number"),
        ("[ if n 1 2 ]", "the condition of if must be a truth value, not number"),
        (
            "[ invoke1 [ partial0 [ partial0 n + ] invoke1 ] 1 ]",
            "argument 1 of partial0 must be a value, not function",
        ),
        (
            "[ map a [ partial0 0 [ partial1 2 slice ] ] ]",
            "argument 1 of slice must be array, not number",
        ),
        ("[ && false [ == [ / 1 0 ] 1 ] ]", "zero"),
        ("[ reduce a abs + ]", "must be a value, not function"),
        ("[ map a reduce ]", "reduce takes 3 arguments, not 1"),
    ],
)
def test_programs_that_fail(program, complaint):
    with pytest.raises(ProgramError, match=complaint):
        run(program, a=[1, 2], n=1)


@pytest.mark.parametrize(
    ("program", "complaint"),
    [
        ("[ invoke1 [ lambda1 [ self arg1 ] ] 1 ]", "more than 110 deep"),
        ("[ invoke1 [ lambda1 [ + [ self arg1 ] 1 ] ] 1 ]", "more than 110 deep"),
        ("[ invoke1 [ lambda1 [ head [ map [ range 0 1 ] self ] ] ] 1 ]", "more than 110 deep"),
        ("[ invoke1 [ combine [ lambda1 [ self arg1 ] ] abs ] 1 ]", "more than 110 deep"),
        (FIBONACCI.replace(" n ]", " 40 ]"), "more than 100000 steps"),
        (f"[ map {THOUSAND} [ lambda1 [ map {THOUSAND} [ lambda1 {THOUSAND} ] ] ] ]",
         "steps|nested"),
        (f"[ reduce {THOUSAND} 0 [ lambda2 [ reduce {THOUSAND} 0 + ] ] ]", "steps"),
        (f'[ reduce {THOUSAND} "z" [ lambda2 [ str_concat arg1 arg1 ] ] ]', "steps"),
        (f"[ reduce {THOUSAND} {THOUSAND} append ]", "steps"),
        (f"[ reduce {THOUSAND} 10 [ lambda2 [ * arg1 arg1 ] ] ]", "4096 bits"),
        (f"[ reduce {THOUSAND} {THOUSAND} [ lambda2 [ append [ array-new int ] arg1 ] ] ]",
         "nested array"),
        (f"[ reduce {THOUSAND} 0 [ lambda2 [ len [ map {THOUSAND} [ lambda1 arg1 ] ] ] ] ]",
         "steps"),
        # Each holds the one before it twice, so comparing two of them takes 2^1000 steps.
        (f"[ == {DOUBLED} {DOUBLED} ]", "a dictionary can only hold .*, not dictionary"),
    ],
)  # fmt: skip
def test_programs_without_end_are_given_up_soon(program, complaint):
    start = time.process_time()
    with pytest.raises(ProgramError, match=complaint):
        run(program)
    assert time.process_time() - start < 5


def chain(length):
    """Return a program that composes `length` functions and calls the result."""
    longer = f"[ lambda2 [ if [ == arg2 0 ] abs [ combine arg1 {length} ] ] ]"
    return f"[ invoke1 [ reduce {THOUSAND} 0 {longer} ] n ]"


def test_functions_made_of_functions_leave_pythons_stack_alone():
    assert run(chain("abs"), n=-4) == 4
    partial = "[ lambda2 [ if [ == arg2 0 ] abs [ partial0 1 [ combine arg1 + ] ] ] ]"
    assert run(f"[ invoke1 [ reduce {THOUSAND} 0 {partial} ] n ]", n=-4) == 995
    # More and more of them, kept and released, up to the limit.
    nested = (
        f"[ lambda2 [ reduce {THOUSAND} arg2 "
        "[ lambda2 [ combine [ lambda1 arg1 ] [ lambda1 arg1 ] ] ] ] ]"
    )
    with pytest.raises(ProgramError, match="steps"):
        run(f"[ reduce {THOUSAND} 0 {nested} ]")
    with pytest.raises(ProgramError, match="steps"):
        run(chain("arg1"), n=-4)


def test_deeply_nested_calls_run():
    program = "n"
    for _ in range(50):
        program = f"[ invoke1 [ lambda1 {program} ] 0 ]"
    assert run(program, n=3) == 3


def random_program(random, nesting):
    if nesting == 0 or random.random() < 0.25:
        return random.choice([*CONSTANTS, *ARITIES] + ["a", "n", "s", "arg1", "arg2", "self"] * 8)
    name = random.choice([*ARITIES, *["lambda1", "lambda2", "map", "reduce", "filter"] * 4])
    parts = [random_program(random, nesting - 1) for _ in range(ARITIES[name])]
    return f"[ {' '.join([name, *parts])} ]"


def test_random_programs_give_values_or_program_errors():
    given = {"a": [3, 1, 2], "n": 2, "s": "ab c"}
    answered = failed = 0
    for seed in range(5000):
        random = Random(seed)
        try:
            run(random_program(random, random.randint(1, 6)), **given)
            answered += 1
        except ProgramError:
            failed += 1
    assert answered > 1000 and failed > 1000


def test_the_limit_of_steps_is_the_callers():
    assert run(FIBONACCI, n=10) == 89
    with pytest.raises(ProgramError, match="more than 100 steps"):
        run(FIBONACCI, max_steps=100, n=10)


def test_depth_counts_functions_within_each_other():
    count = "[ invoke1 [ lambda1 [ if [ == arg1 0 ] 0 [ + 1 [ self [ - arg1 1 ] ] ] ] ] n ]"
    assert run(count, n=MAX_DEPTH - 1) == MAX_DEPTH - 1
    with pytest.raises(ProgramError, match="more than 110 deep"):
        run(count, n=MAX_DEPTH)


@pytest.mark.parametrize(
    ("inputs", "complaint"),
    [
        ({}, r"takes the arguments \['a', 'n'\], not \[\]"),
        ({"a": [1]}, r"not \['a'\]"),
        ({"a": [1], "n": 1, "m": 1}, "not"),
        ({"a": 1, "n": 1}, r"argument a is not of type int\[\]"),
        ({"a": ["x"], "n": 1}, r"argument a is not of type int\[\]"),
        ({"a": [1], "n": True}, "argument n is not of type int"),
        ({"a": [1], "n": None}, "argument n is not of type int"),
    ],
)
def test_inputs_must_be_the_arguments(inputs, complaint):
    with pytest.raises(ProgramError, match=complaint):
        Program("n", {"a": "int[]", "n": "int"}).run(inputs)


@pytest.mark.parametrize("name", ["float", "int[", "int[][][]", "", 3])
def test_unknown_types_are_refused(name):
    with pytest.raises(ProgramError, match="is not a type"):
        Program("a", {"a": name})


def test_an_argument_may_be_called_like_a_function():
    assert Program("[ + len head ]", {"len": "int", "head": "int"}).run({"len": 1, "head": 2}) == 3


def test_is_prime_cost_one_step():
    program, numbers = Program("[ filter a is_prime ]", {"a": "int[]"}), [999_983] * 50
    assert program.run({"a": numbers}) == numbers
    with pytest.raises(ProgramError, match="takes more than 10000 steps"):
        program.run({"a": numbers}, 10_000)
