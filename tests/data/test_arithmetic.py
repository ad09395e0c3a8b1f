import itertools

import pytest

from keras_quasiattn.data.arithmetic import ArithmeticGrammar, Expression
from keras_quasiattn.errors import UserError

GRAMMAR = ArithmeticGrammar()


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("x=85,y=-523,x*y", -44455),
        ("y=691,x=-999,y*x", -690309),
        ("y=210,x=-995,y+x", -785),
        ("x=-995,y=210,x*x", 990025),
        ("x=85,y=-52,y-x", -137),
        ("x=0,y=-1000,y-y", 0),
        (b"x=999,y=1,y-x", -998),
    ],
)
def test_answers_of_published_examples(text, answer):
    assert GRAMMAR.evaluate(text) == answer


def test_parse_names_each_part_in_either_order():
    assert GRAMMAR.parse("y=3,x=-2,y-x") == Expression(x=-2, y=3, left="y", operator="-", right="x")
    assert [GRAMMAR.parse(f"x=1,y=2,{operation}").kind for operation in ("y-y", "x-y", "y-x")] == [
        "x-x",
        "x-y",
        "x-y",
    ]
    assert GRAMMAR.parse("x=-2,y=3,y-x") == GRAMMAR.parse("y=3,x=-2,y-x")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello",
        "x=1,y=2",
        "x=1,x=2,x+x",
        "x=1,y=2,x/y",
        "x=1,y=2,x+y+x",
        "x=1,y=2,x+z",
        " x=1,y=2,x+y",
        "x=1,y=2,x+y\n",
        "x=01,y=2,x+y",
        "x=+1,y=2,x+y",
        "x=١,y=2,x+y",
        "x=1000,y=2,x+y",
        "x=1,y=-1001,x+y",
        "x=-0,y=1,x+y",
        "x=" + "9" * 5000 + ",y=1,x+y",
        "x" * 10_000,
        b"\xff\xfe",
        b"x=1,y=2,x+y\xff",
        "x=1,\udcff",
        "x=1,y=2,\u2028x+y",
    ],
    ids=lambda text: repr(text[:16]),
)
def test_other_text_gets_one_line_that_names_it_and_what_is_right(text):
    with pytest.raises(UserError) as caught:
        GRAMMAR.evaluate(text)
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    assert repr(text[:40]) in message
    assert len(message) < 400
    assert "from -1000 to 999" in message and "+ - *" in message
    message.encode()  # printable anywhere: no lone surrogates


def test_long_input_is_shortened_and_its_length_told():
    with pytest.raises(UserError, match=r"'x{40}'\.\.\. \(10000 characters\)"):
        GRAMMAR.parse("x" * 10_000)
    with pytest.raises(UserError, match=r"\(10000 bytes\)"):
        GRAMMAR.parse(b"\xff" * 10_000)


def test_range_and_operators_are_the_grammars_own():
    grammar = ArithmeticGrammar(low=-100, high=100, operators="+-")
    assert grammar.evaluate("x=99,y=-100,x+y") == -1
    with pytest.raises(UserError, match=r"value of x .* from -100 to 99"):
        grammar.parse("x=100,y=1,x+y")
    with pytest.raises(UserError, match=r"operator '\*' .* operators \+ -"):
        grammar.parse("x=1,y=1,x*y")


@pytest.mark.parametrize(
    ("low", "high", "operators"), [(-12, 10, "*-"), (0, 11, "-"), (-3, 101, "+")]
)
def test_longest_texts_are_those_of_the_whole_range(low, high, operators):
    grammar = ArithmeticGrammar(low, high, operators)
    cells = itertools.product(range(low, high), range(low, high), operators)
    texts = [f"x={x},y={y},x{operator}y" for x, y, operator in cells]
    assert grammar.longest_expression == max(map(len, texts))
    answers = [
        grammar.evaluate(f"x={x},y={y},{pair[0]}{o}{pair[1]}")
        for x, y, o, pair in itertools.product(
            range(low, high), range(low, high), operators, ("xy", "yx", "xx", "yy")
        )
    ]
    assert grammar.longest_answer == max(len(str(answer)) for answer in answers)


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"low": 3, "high": 3}, "low=3, high=3"),
        ({"operators": ""}, "got ''"),
        ({"operators": "++"}, "got '\\+\\+'"),
        ({"operators": "+/"}, "got '\\+/'"),
    ],
)
def test_impossible_grammars_are_refused(settings, complaint):
    with pytest.raises(ValueError, match=complaint):
        ArithmeticGrammar(**settings)
