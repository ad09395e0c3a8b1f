import collections
import itertools
import re
from random import Random

import pytest
import tensorflow_datasets as tfds
import warm

from keras_quasiattn.lab.data import GeneratedAlgoLisp, GeneratedAlgoLispConfig, ProgramTests
from keras_quasiattn.lab.data.algolisp.generator import (
    PUBLISHED_SIZES,
    RULES,
    Draft,
    draw_input,
    generate_problems,
)
from keras_quasiattn.lab.data.algolisp.language import Program, has_type

COUNT = 200


@pytest.fixture(scope="module")
def problems():
    return {split: list(generate_problems(split, COUNT)) for split in PUBLISHED_SIZES}


@pytest.fixture(scope="module")
def every(problems):
    return list(itertools.chain.from_iterable(problems.values()))


def test_programs_answer_their_own_tests_in_their_type(every):
    assert len(every) == 3 * COUNT
    for problem in every:
        tests = problem.tests
        assert len(tests.tests) == 10
        assert tests.passed_by(problem.program)
        assert all(has_type(example.output, tests.return_type) for example in tests.tests)


def test_tests_tell_programs_apart(every):
    for problem in every:
        outputs = [str(example.output) for example in problem.tests.tests]
        assert len(set(outputs)) >= (2 if problem.tests.return_type == "bool" else 4)
        names = problem.tests.arguments
        assert not any(problem.tests.passed_by(name) for name in names), problem.program
    passed = sum(
        one.tests.passed_by(other.program)
        for one, other in itertools.pairwise(every)
        if one.program != other.program
    )
    assert passed < 0.01 * len(every)


def test_a_text_means_one_program(every):
    assert len({problem.text for problem in every}) == len(every)


def test_what_follows_a_value_belongs_to_the_name_before_it(every):
    for words in ("plus", "minus", "squared", "reversed"):
        texts = [problem.text.split(" ") for problem in every if f" {words}" in problem.text]
        before = [
            text[place - 1] for text in texts for place, word in enumerate(text) if word == words
        ]
        names = [word for word in before if len(word) == 1 or word == "10"]
        # A change of elements, "each plus b", is worded differently.
        assert names and set(before) - set(names) <= {"each", "element", "value"}, set(before)


def anonymous(problem):
    """The program with its arguments numbered."""
    numbers = {}
    return tuple(
        numbers.setdefault(token, len(numbers)) if token in problem.tests.arguments else token
        for token in problem.program.split(" ")
    )


def test_splits_share_no_program_under_any_names(problems):
    programs = {split: {anonymous(problem) for problem in made} for split, made in problems.items()}
    for one, other in itertools.combinations(programs.values(), 2):
        assert not one & other
    assert all(len(made) > COUNT / 3 for made in programs.values())


def test_names_of_arguments_do_not_change_the_split():
    def split(program, *names):
        return Draft("", program, dict.fromkeys(names, "int"), "int").split

    splits = set()
    for depth in range(40):
        inner = "[ square " * depth + "{1}" + " ]" * depth
        program = "[ + {0} [ * " + inner + " {0} ] ]"
        splits.add(split(program.format("a", "b"), "a", "b"))
        assert split(program.format("a", "b"), "a", "b") == split(
            program.format("d", "c"), "c", "d"
        )
    assert len(splits) > 1


def test_shares_of_programs_are_those_of_the_published_splits():
    drafts = [Draft("", f"[ {number} ]", {}, "int").split for number in range(5000)]
    for split, size in PUBLISHED_SIZES.items():
        share = size / sum(PUBLISHED_SIZES.values())
        assert drafts.count(split) / 5000 == pytest.approx(
            share, abs=5 * (share * (1 - share) / 5000) ** 0.5
        )


def test_all_types_and_depths_occur(every):
    types = collections.Counter(problem.tests.return_type for problem in every)
    assert set(types) == {"int", "int[]", "bool", "string", "string[]"}
    assert min(types.values()) > 0.03 * len(every)
    lengths = [len(problem.program.split(" ")) for problem in every]
    assert min(lengths) <= 5 and max(lengths) > 60 and 15 < sum(lengths) / len(lengths) < 40
    assert len({problem.program for problem in every}) > 0.7 * len(every)


def test_texts_declare_exactly_the_arguments(every):
    for problem in every:
        for name in problem.tests.arguments:
            assert re.search(rf"\b{name}\b", problem.text)
        assert set(re.findall(r"\b[a-z]\b", problem.program)) == set(problem.tests.arguments), (
            problem
        )
        assert "@" not in problem.text + problem.program
        assert "{" not in problem.text + problem.program
        assert problem.text == " ".join(problem.text.split()) and len(problem.text.split()) <= 60


def test_every_rule_makes_a_program_that_can_run():
    inputs = {"a": [5, 4, 3], "s": "b c", "t": ["x", "yz", "u"]}
    types = {"a": "int[]", "s": "string", "t": "string[]"}
    # By category: a program of it, how a program uses one, and the type of what that returns.
    categories = {
        "int": ("2", "{}", "int"),
        "ints": ("a", "{}", "int[]"),
        "string": ("s", "{}", "string"),
        "strings": ("t", "{}", "string[]"),
        "bool": ("true", "{}", "bool"),
        "condition": ("is_prime", "[ filter a {} ]", "int[]"),
        "test": ("[ > arg1 1 ]", "[ filter a [ lambda1 {} ] ]", "int[]"),
        "change": ("square", "[ map a {} ]", "int[]"),
        "string_condition": ("[ partial0 s != ]", "[ filter t {} ]", "string[]"),
        "string_change": ("[ partial0 s str_concat ]", "[ map t {} ]", "string[]"),
    }
    for category, rules in RULES.items():
        _, use, result = categories[category]
        for rule, _, texts in rules:
            slots = set(re.findall(r"{(\w+)}", rule))
            assert texts and all(set(re.findall(r"{(\w+)}", text)) == slots for text in texts), rule
            program = rule.format(**{slot: categories[slot.rstrip("2")][0] for slot in slots})
            assert has_type(Program(use.format(program), types).run(inputs), result), rule


def test_seed_fixes_the_problems_and_longer_streams_begin_alike(problems):
    assert list(generate_problems("test", 50)) == problems["test"][:50]
    other = list(generate_problems("test", 50, seed=1))
    assert {p.text for p in other}.isdisjoint(
        {p.text for p in problems["test"][:50] if len(p.text) > 100}
    )


@pytest.mark.long
def test_another_process_makes_the_same_problems(problems):
    code = (
        "from keras_quasiattn.lab.data.algolisp.generator import generate_problems\n"
        "print(*[p.program + p.tests.to_json() for p in generate_problems('validation', 20)], "
        "sep='\\n')"
    )
    # With other hashes of strings, which a forked process would not have.
    printed = warm.printed(["-c", code], warm.fresh, variables={"PYTHONHASHSEED": "7"})
    assert printed.splitlines() == [
        p.program + p.tests.to_json() for p in problems["validation"][:20]
    ]


@pytest.mark.parametrize("type_name", ["int", "int[]", "string", "string[]"])
def test_inputs_are_of_their_type_and_varied(type_name):
    drawn = [draw_input(Random(seed), type_name) for seed in range(300)]
    assert all(has_type(value, type_name) for value in drawn)
    assert len(set(map(str, drawn))) > 60
    assert drawn[:20] == [draw_input(Random(seed), type_name) for seed in range(20)]
    if type_name == "int[]":
        assert sum(value == sorted(value) for value in drawn) > 15
        assert sum(value == value[::-1] for value in drawn) > 15
    if type_name == "int":
        assert min(drawn) == 0


# The data set of generated problems.
SMALL = GeneratedAlgoLispConfig(train=25, validation=10, test=12, seed=4)


def examples_of(builder, split):
    examples = tfds.as_numpy(builder.as_dataset(split=split))
    return [
        (e["text"].decode(), e["program"].decode(), ProgramTests.from_json(e["tests"]))
        for e in examples
    ]


def test_prepares_and_loads_with_tfds(tmp_path, monkeypatch):
    monkeypatch.setattr("keras_quasiattn.lab.data.algolisp.generator._EXAMPLES_PER_SHARD", 10)
    builder = GeneratedAlgoLisp(config=SMALL, data_dir=tmp_path)
    builder.download_and_prepare()
    shards = {split: info.num_shards for split, info in builder.info.splits.items()}
    assert shards == {"train": 3, "validation": 1, "test": 2}
    for split, size in SMALL.sizes.items():
        expected = [(p.text, p.program, p.tests) for p in generate_problems(split, size, seed=4)]
        assert examples_of(builder, split) == expected
        assert builder.info.splits[split].num_examples == size == len(expected)


def test_settings_make_the_name():
    settings = [{}, {"train": 9}, {"validation": 9}, {"test": 9}, {"seed": 9}]
    names = {GeneratedAlgoLispConfig(**setting).name for setting in settings}
    assert len(names) == len(settings)


@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_empty_splits_are_refused(split):
    with pytest.raises(ValueError, match=f"'{split}': 0"):
        GeneratedAlgoLispConfig(**{split: 0})
