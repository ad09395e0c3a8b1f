"""The grammar of arithmetic questions, and the data set generated from it."""

import collections
import itertools
import tracemalloc

import numpy as np
import pytest
import tensorflow_datasets as tfds

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.data.arithmetic import (
    SPLITS,
    ArithmeticGrammar,
    ArithmeticMlu,
    ArithmeticMluConfig,
    Expression,
    generate_examples,
    split_of,
)

GRAMMAR = ArithmeticGrammar()
SMALL = ArithmeticMluConfig(low=-21, high=19)
SMALL_ALL = ArithmeticMluConfig(low=-21, high=19, operators="-*", forms="all", seed=3)


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
    kinds = [GRAMMAR.parse(f"x=1,y=2,{operation}").kind for operation in ("y-y", "x-y", "y-x")]
    assert kinds == ["x-x", "x-y", "x-y"]
    assert GRAMMAR.parse("x=-2,y=3,y-x") == GRAMMAR.parse("y=3,x=-2,y-x")


@pytest.mark.parametrize(
    "text",
    [
        *("", "hello", "x=1,y=2", "x=1,x=2,x+x", "x=1,y=2,x/y", "x=1,y=2,x+y+x", "x=1,y=2,x+z"),
        *(" x=1,y=2,x+y", "x=1,y=2,x+y\n", "x=01,y=2,x+y", "x=+1,y=2,x+y", "x=١,y=2,x+y"),
        *("x=1000,y=2,x+y", "x=1,y=-1001,x+y", "x=-0,y=1,x+y", "x=" + "9" * 5000 + ",y=1,x+y"),
        *("x" * 10_000, b"\xff\xfe", b"x=1,y=2,x+y\xff", "x=1,\udcff", "x=1,y=2,\u2028x+y"),
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


def rows(config, split):
    return [
        (example["expression"], example["answer"])
        for _, example in generate_examples(config, split)
    ]


def all_rows(config):
    return list(itertools.chain.from_iterable(rows(config, split) for split in SPLITS))


def canonical(expression):
    """Another way to say what one expression is: the set of all its spellings."""
    x, y, left, operator, right = expression
    spellings = set()
    for renamed in (False, True):
        values = {"x": y, "y": x} if renamed else {"x": x, "y": y}
        operands = ["yx"[name == "y"] if renamed else name for name in (left, right)]
        for swapped in {False, operator in "+*"}:
            spellings.add(
                (values["x"], values["y"], operator, *(operands[::-1] if swapped else operands))
            )
    return frozenset(spellings)


@pytest.mark.parametrize("config", [SMALL, SMALL_ALL], ids=["one", "all"])
def test_splits_share_no_expression_in_any_spelling(config):
    splits_of = collections.defaultdict(set)
    for split in SPLITS:
        for text, _ in rows(config, split):
            splits_of[canonical(config.grammar.parse(text))].add(split)
    assert all(len(splits) == 1 for splits in splits_of.values())
    assert set.union(*splits_of.values()) == set(SPLITS)


@pytest.mark.parametrize("other", ["x=85,y={0},x-x", "x=85,y={0},x+y"])
def test_other_expressions_fall_independently(other):
    # Another computation, or another value of the unused variable, is another expression.
    grammar = ArithmeticMluConfig().grammar
    ours = [split_of(grammar.parse(f"x=85,y={y},x-y")) == "test" for y in range(-1000, 1000)]
    others = [split_of(grammar.parse(other.format(y))) == "test" for y in range(-1000, 1000)]
    assert 0 < np.corrcoef(ours, others)[0, 1] + 0.15 < 0.3
    assert np.mean(others) == pytest.approx(0.1, abs=5 * 0.3 / np.sqrt(2000))


def test_every_cell_has_one_text_and_all_forms_occur():
    texts = [text for text, _ in all_rows(SMALL)]
    assert len(set(texts)) == len(texts) == SMALL.num_expressions == 40 * 40 * 3
    expressions = [SMALL.grammar.parse(text) for text in texts]
    assert len({(e.x, e.y, e.operator) for e in expressions}) == len(texts)
    forms = collections.Counter(
        (text[0], e.left, e.right) for text, e in zip(texts, expressions, strict=True)
    )
    assert len(forms) == 8
    np.testing.assert_allclose(list(forms.values()), 600, atol=5 * np.sqrt(600))


def test_all_forms_write_every_text():
    numbers = range(-21, 19)
    expected = {
        f"{assignments},{left}{operator}{right}"
        for x, y in itertools.product(numbers, numbers)
        for assignments in (f"x={x},y={y}", f"y={y},x={x}")
        for left, operator, right in itertools.product("xy", "-*", "xy")
    }
    texts = [text for text, _ in all_rows(SMALL_ALL)]
    assert len(texts) == len(expected) and set(texts) == expected


def test_answers_are_right():
    for text, answer in all_rows(SMALL) + all_rows(SMALL_ALL):
        assignments, operation = text.rsplit(",", 1)
        names = dict(assignment.split("=") for assignment in assignments.split(","))
        assert int(answer) == eval(
            operation, {name: int(value) for name, value in names.items()}
        ), text


def test_shares_are_nine_to_one():
    config = ArithmeticMluConfig(low=-70, high=70)
    sizes = {split: len(rows(config, split)) for split in SPLITS}
    shares = {split: size / config.num_expressions for split, size in sizes.items()}
    assert shares["test"] == pytest.approx(0.1, abs=0.005)
    assert shares["validation"] == pytest.approx(0.01, abs=0.002)
    assert sum(sizes.values()) == config.num_expressions == 58_800


def test_seed_fixes_data_and_order():
    again = ArithmeticMluConfig(low=-21, high=19)
    other = ArithmeticMluConfig(low=-21, high=19, seed=1)
    assert rows(SMALL, "train") == rows(again, "train")
    assert set(all_rows(SMALL)) != set(all_rows(other))
    assert rows(SMALL, "train")[:50] != rows(other, "train")[:50]


def test_split_of_an_expression_is_the_same_in_every_config():
    wide = ArithmeticMluConfig(low=-22, high=20, forms="all", seed=9)
    splits = {text: split for split in SPLITS for text, _ in rows(wide, split)}
    for config, split in itertools.product((SMALL, SMALL_ALL), SPLITS):
        texts = [text for text, _ in rows(config, split)]
        assert {splits[text] for text in texts} == {split}
        assert {split_of(config.grammar.parse(text)) for text in texts[::20]} == {split}


def test_training_rows_come_shuffled():
    xs = np.array([SMALL_ALL.grammar.parse(text).x for text, _ in rows(SMALL_ALL, "train")])
    halves = np.array_split(xs, 8)
    spread = np.std(xs) / np.sqrt(len(halves[0]))
    np.testing.assert_allclose([half.mean() for half in halves], xs.mean(), atol=5 * spread)


def test_pieces_of_the_order_join_to_the_whole():
    whole = list(generate_examples(SMALL, "train"))
    assert whole == [
        *generate_examples(SMALL, "train", 0, 1000),
        *generate_examples(SMALL, "train", 1000),
    ]


def test_memory_does_not_grow_with_the_range():
    def peak_bytes(config):
        tracemalloc.start()
        # All blocks cost alike. The test split visits all of them and formats few rows.
        count = sum(1 for _ in generate_examples(config, "test"))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak, count

    small, few = peak_bytes(ArithmeticMluConfig(low=-73, high=73))  # one block
    large, many = peak_bytes(ArithmeticMluConfig(low=-200, high=200))
    assert many > 7 * few
    assert large < 1.5 * small and large < 32 * 2**20


def test_prepares_and_loads_with_tfds_in_order(tmp_path, monkeypatch):
    monkeypatch.setattr("keras_quasiattn.lab.data.arithmetic._EXAMPLES_PER_SHARD", 700)
    builder = ArithmeticMlu(config=SMALL, data_dir=tmp_path)
    builder.download_and_prepare()
    assert builder.info.splits["train"].num_shards == 7
    for split in SPLITS:
        examples = tfds.as_numpy(builder.as_dataset(split=split, as_supervised=True))
        assert [(q.decode(), a.decode()) for q, a in examples] == rows(SMALL, split)
        assert builder.info.splits[split].num_examples == len(rows(SMALL, split))
    again = tfds.builder_from_directory(builder.data_dir)
    assert int(again.as_dataset(split="test").cardinality()) == len(rows(SMALL, "test"))


def test_settings_make_the_name():
    settings = [{}, {"low": 1}, {"high": 9}, {"operators": "+"}, {"forms": "all"}, {"seed": 4}]
    names = {
        ArithmeticMluConfig(**{"low": -30, "high": 30, **setting}).name for setting in settings
    }
    assert len(names) == len(settings)


def test_a_preset_name_cannot_be_given_other_settings(tmp_path):
    assert ArithmeticMlu.builder_configs["paper"].num_expressions == 12_000_000
    with pytest.raises(ValueError, match="demo"):
        ArithmeticMlu(config=ArithmeticMluConfig(name="demo", low=-50, high=50), data_dir=tmp_path)


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"forms": "some"}, "forms must be one of 'one', 'all'; got 'some'"),
        ({"low": 0, "high": 5}, "at least 1000 expressions .* gives 75"),
        ({"high": 2**25}, "2\\^24"),
        ({"operators": "/"}, "got '/'"),
        ({"operators": ""}, "got ''"),
        ({"operators": "++"}, "got '\\+\\+'"),
        ({"low": 3, "high": 3}, "low=3, high=3"),
    ],
)
def test_impossible_configs_are_refused(settings, complaint):
    with pytest.raises(ValueError, match=complaint):
        ArithmeticMluConfig(**settings)
