"""Every constant and function of the language, with its edge cases."""

import math

import pytest

from keras_quasiattn.data.algolisp.language import CONSTANTS, FUNCTIONS, Program, ProgramError

TYPES = {
    "i": "int",
    "j": "int",
    "k": "int",
    "a": "int[]",
    "b": "int[]",
    "s": "string",
    "t": "string",
    "w": "string[]",
    "p": "bool",
    "q": "bool",
}


def run(program, **inputs):
    return Program(program, {name: TYPES[name] for name in inputs}).run(inputs)


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
def test_values(program, inputs, value):
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
        ("[ / [ sqrt i ] 0 ]", {"i": 1}, "/: .*zero"),
        ("[ % i 0 ]", {"i": 1}, "%: .*zero"),
        ("[ pow 0 i ]", {"i": -1}, "pow: .*zero|pow: 0.0"),
        ("[ pow 10 i ]", {"i": 10**9}, "more than 4096 bits"),
        ("[ pow 10 [ pow 10 40 ] ]", {}, "more than 4096 bits"),
        ("[ pow 2 i ]", {"i": 4096}, "more than 4096 bits"),
        ("[ pow [ sqrt 2 ] i ]", {"i": 10**9}, "pow: "),
        ("[ pow [ - 0 [ sqrt 2 ] ] [ sqrt 2 ] ]", {}, "root of a negative"),
        ("[ * i i ]", {"i": 2**2048}, "more than 4096 bits"),
        ("[ + i i ]", {"i": 2**4095}, "more than 4096 bits"),
        ("[ + i [ sqrt 2 ] ]", {"i": 2**4000}, r"\+: int too large"),
        ("[ sqrt i ]", {"i": -1}, "root of a negative"),
        ("[ sqrt i ]", {"i": 2**4000}, "sqrt: int too large"),
        ("[ floor inf ]", {}, "cannot convert inf to a whole number"),
        ("[ floor [ - inf inf ] ]", {}, "cannot convert nan to a whole number"),
        ("[ range 0 i ]", {"i": 1001}, "more than 1000 numbers"),
        ("[ range 0 inf ]", {}, "more than 1000 numbers"),
        ("[ range inf 0 ]", {}, "cannot convert inf to a whole number"),
        ("[ head a ]", {"a": []}, "no element 0: the length is 0"),
        ("[ deref a i ]", {"a": [1], "i": 1}, "no element 1"),
        ("[ deref a i ]", {"a": [1], "i": -1}, "no element -1"),
        ("[ deref a [ sqrt 2 ] ]", {"a": [1, 2, 3]}, r"no element 1\.4"),
        ("[ deref a inf ]", {"a": [1]}, "no element inf"),
        ("[ deref a [ - inf inf ] ]", {"a": [1]}, "no element nan"),
        ("[ str_index i s ]", {"i": -1, "s": "ab"}, "no element -1"),
        ("[ str_split s t ]", {"s": "ab", "t": ""}, "needs a delimiter that is not empty"),
        ("[ append [ array-new int ] [ append [ array-new int ] a ] ]", {"a": [1]}, "nested array"),
        ("[ append a [ dict-new int int ] ]", {"a": [1]}, "array can only hold .*, not dictionary"),
        ("[ append a int ]", {"a": [1]}, "array can only hold .*, not type"),
        (
            "[ dict-insert [ dict-new int int ] a 1 ]",
            {"a": [1]},
            "dictionary can only hold .*, not array",
        ),
        (
            "[ dict-insert [ dict-new int int ] 1 a ]",
            {"a": [1]},
            "dictionary can only hold .*, not array",
        ),
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
        ("[ digits [ sqrt 2 ] ]", {}, r"digits needs an integer, not 1\.4"),
        ("[ + i s ]", {"i": 1, "s": "x"}, r"argument 2 of \+ must be number, not string"),
        ("[ + p i ]", {"p": True, "i": 1}, r"argument 1 of \+ must be number, not truth value"),
        ("[ && p i ]", {"p": True, "i": 1}, "argument 2 of && must be truth value, not number"),
        ("[ len s ]", {"s": "x"}, "argument 1 of len must be array, not string"),
        ("[ strlen a ]", {"a": []}, "argument 1 of strlen must be string, not array"),
        ("[ == i + ]", {"i": 1}, "argument 2 of == must be a value, not function"),
        ("[ append a abs ]", {"a": [1]}, "must be a value, not function"),
    ],
)
def test_errors(program, inputs, complaint):
    with pytest.raises(ProgramError, match=complaint):
        run(program, **inputs)


def test_inputs_are_never_changed():
    inputs = {"a": [3, 1, 2], "w": ["b", "a"]}
    for program in (
        "[ sort a ]",
        "[ append a 1 ]",
        "[ reverse w ]",
        "[ tail a ]",
        "[ slice a 0 10 ]",
    ):
        run(program, **inputs)
    assert inputs == {"a": [3, 1, 2], "w": ["b", "a"]}
