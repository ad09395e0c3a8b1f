from keras_quasiattn.report import token_table

ANSWER = {
    "label": "b",
    "classes": ["a", "b"],
    "probabilities": [0.25, 0.75],
    "tokens": ["who", "shot", "?"],
}


def test_gates_weights_and_bars():
    lines = token_table(
        {**ANSWER, "gates": [True, True, False], "weights": [0.8, 0.2, 0.0]}
    ).splitlines()
    assert lines[0] == "b 0.750"
    assert [line.split() for line in lines[1:]] == [
        ["+", "0.800", "who", "#" * 30],
        ["+", "0.200", "shot", "#" * 8],
        ["-", "0.000", "?"],
    ]


def test_without_gates_and_without_weights():
    lines = token_table({**ANSWER, "weights": [0.0, -1.0, 0.5]}).splitlines()
    assert lines[2] == f"  -1.000 shot  {'#' * 30}"
    assert token_table(ANSWER).splitlines() == ["b 0.750", "  who", "  shot", "  ?"]


def test_a_weight_that_is_not_finite_had_no_bar_and_no_table():
    weights = [float("nan"), 0.5, float("-inf")]
    lines = token_table({**ANSWER, "weights": weights}).splitlines()[1:]
    bar = "#" * 30
    assert [line.split() for line in lines] == [
        ["nan", "who"],
        ["0.500", "shot", bar],
        ["-inf", "?"],
    ]


def test_text_without_tokens():
    assert token_table({**ANSWER, "tokens": [], "gates": [], "weights": []}) == "b 0.750"


def test_an_escape_in_a_class_name_reached_the_terminal():
    answer = {
        "label": "\x1b[2J",
        "classes": ["\x1b[2J"],
        "probabilities": [1.0],
        "tokens": ["a\x07\r", "x" * 999],
    }
    table = token_table(answer)
    assert not {"\x1b", "\x07", "\r"} & set(table)
    assert max(map(len, table.splitlines())) < 250
