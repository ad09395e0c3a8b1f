"""Generate problems (a text, its program and ten tests), and a TFDS data set of them."""

import bisect
import dataclasses
import functools
import hashlib
import itertools
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import resources
from random import Random
from typing import Any, Final

import tensorflow_datasets as tfds

from keras_quasiattn.lab.data.algolisp.language import Program, ProgramError, has_type, size_of
from keras_quasiattn.lab.data.algolisp.problems import Example, Problem, ProgramTests
from keras_quasiattn.lab.data.preparation import GeneratedTexts

# Values that a problem may declare as arguments: their type, and the words for one and several.
ARGUMENTS: Final[Mapping[str, tuple[str, Sequence[tuple[str, str]]]]] = {
    "int": ("int", [("a number", "numbers"), ("an integer", "integers")]),
    "ints": (
        "int[]",
        [(f"an array of {words}", f"arrays of {words}") for words in ("numbers", "integers")],
    ),
    "string": ("string", [("a string", "strings")]),
    "strings": ("string[]", [("an array of strings", "arrays of strings")]),
}
CONSTANTS: Final = {"int": ("1", "2", "10")}

OPENINGS: Final = ["given", "consider", "you are given", "you have", "suppose you have"]
DEFINITIONS: Final = ["let {name} be {phrase}", "define {name} as {phrase}", "call {phrase} {name}"]
_TASK = "your task is to"
REQUESTS: Final = [
    *(f"{words} {{phrase}}" for words in ("compute", "find", "what is", "return")),
    *(f"{_TASK} {word} {{phrase}}" for word in ("find", "compute")),
]
_CHECKS = (
    "check if",
    "find whether",
    "is it true that",
    f"{_TASK} check whether",
    "return true if",
)
QUESTIONS: Final = [f"{words} {{phrase}}" for words in _CHECKS]

_ABBREVIATIONS = {
    "<PAIRED>": "[ range 0 [ min [ len {ints} ] [ len {ints2} ] ] ]",
    "<DISTINCT>": (
        "[ dict-keys [ reduce {ints} [ dict-new int int ] [ partial2 1 dict-insert ] ] ]"
    ),
    "<REVERSED>": '[ reduce [ reverse <CHARACTERS> ] "" str_concat ]',
    "<CHARACTERS>": "[ map [ range 0 [ strlen {string} ] ] [ partial1 {string} str_index ] ]",
    "<WORDS>": '[ str_split {string} " " ]',
}
# Problems in the published splits; generated programs are split in the same proportions.
PUBLISHED_SIZES: Final = {"train": 79_214, "validation": 9_352, "test": 10_940}
# TFDS holds a whole shard in memory while writing it, so this bounds its memory.
_EXAMPLES_PER_SHARD: Final = 10_000
_TESTS = 10
_DRAWS = 40
_MAX_STEPS = 10_000
_LARGEST_NUMBER = 10**12
_LARGEST_OUTPUT = 50
_MAX_WORDS, _MAX_TOKENS = 60, 90
_RETURNS = {"int": 8, "ints": 6, "bool": 6, "string": 3, "strings": 3}
_DEPTHS = {1: 2, 2: 4, 3: 4}
_MANY_ARGUMENTS = 4
_MANY_DEFINITIONS = 3
_CONSTANT_SHARE, _SHARED_ARGUMENT_SHARE, _DEFINITION_SHARE = 0.15, 0.5, 0.12
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_RETURN_TYPES = {**{category: one[0] for category, one in ARGUMENTS.items()}, "bool": "bool"}


def _rules() -> dict[str, list[tuple[str, list[str], list[str]]]]:
    """Return the rules by category: each program, its slots, and the phrases that mean it.

    The rules of a category follow its name in `phrases.txt`. A rule is a program, " : " and the
    wordings, separated by " | "; an indented line continues it. A slot such as `{ints}` is filled
    with a phrase of that category in the text, and with its program in the program; a digit
    distinguishes two slots of one category. `int`, `ints`, `bool`, `string` and `strings` are
    values, `condition` and `change` functions of a number, `string_condition` and `string_change`
    of a string; a `test` is an expression about the number `arg1`.
    """
    text = resources.files(__package__).joinpath("phrases.txt").read_text(encoding="utf-8")
    for name, program in _ABBREVIATIONS.items():
        text = text.replace(name, program)
    rules: dict[str, list[tuple[str, list[str], list[str]]]] = {}
    for line in text.replace("\n  ", " ").strip().split("\n"):
        program, _, phrases = line.partition(" : ")
        if phrases:
            slots = list(dict.fromkeys(re.findall(r"{(\w+)}", program)))
            rules[[*rules][-1]].append((program, slots, phrases.split(" | ")))
        else:
            rules[line] = []
    return rules


RULES: Final = _rules()


@dataclasses.dataclass
class GeneratedAlgoLispConfig(tfds.core.BuilderConfig):
    """How many problems to generate, and from which seed.

    Args:
        name: name of the config and of its folder. By default it is made from the other settings,
            so that changed settings never reuse old files.
        train: number of problems in the training split.
        validation: number of problems in the validation split.
        test: number of problems in the test split.
        seed: determines the problems; a smaller split is the start of a larger one with the same
            seed. Defaults to 0.

    Raises:
        ValueError: a split would be empty.
    """

    name: str = ""
    train: int = PUBLISHED_SIZES["train"]
    validation: int = PUBLISHED_SIZES["validation"]
    test: int = PUBLISHED_SIZES["test"]
    seed: int = 0

    def __post_init__(self) -> None:
        if min(self.sizes.values()) < 1:
            raise ValueError(f"every split must have at least one problem; got {self.sizes}")
        if not self.name:
            self.name = f"{'_'.join(map(str, self.sizes.values()))}_seed_{self.seed}"

    @property
    def sizes(self) -> dict[str, int]:
        """Number of problems by split."""
        return {split: getattr(self, split) for split in PUBLISHED_SIZES}


class GeneratedAlgoLisp(GeneratedTexts):
    """Generated programs of the AlgoLisp language, and the texts that ask for them.

    There is nothing to download. The problems have the form, the language and the size of the
    published set, but results on the two cannot be compared. A problem such as

        given an array of numbers a and a number b , find the product of values in a which
          are greater than b
        [ reduce [ filter a [ partial0 b < ] ] 1 * ]

    is made by expanding a grammar of 140 rules, each with several wordings, to a depth of one to
    three. It has ten tests with the program's own answers. No two problems are equal. A hash of the
    program, ignoring the names of its arguments, decides the split: no program of one split is in
    another, whatever the wording and the seed.

    Source: Polosukhin and Skidanov 2018, "Neural Program Search".

    ```python
    builder = GeneratedAlgoLisp(config="paper", data_dir="data")
    builder.download_and_prepare()
    examples = builder.as_dataset(split="train")  # {"text": ..., "program": ..., "tests": ...}
    ```

    `ProgramTests.from_json` reads `tests`.
    """

    DESCRIPTION = "Programs and the words that ask for them, generated by rule."
    KEYS = ("text", "program", "tests")
    BUILDER_CONFIGS = [
        GeneratedAlgoLispConfig(name="paper", description="As many as were published.")
    ]

    def _shard_iterators_per_split(self, dl_manager: Any) -> dict[str, Any]:
        shards = {}
        for split, size in self.builder_config.sizes.items():
            # The shards of a split read one stream one after another, so no problem repeats.
            examples = enumerate(
                {"text": one.text, "program": one.program, "tests": one.tests.to_json()}
                for one in generate_problems(split, size, self.builder_config.seed)
            )
            shard = functools.partial(itertools.islice, examples, _EXAMPLES_PER_SHARD)
            shards[split] = [shard] * math.ceil(size / _EXAMPLES_PER_SHARD)
        return shards


def generate_problems(split: str, count: int, seed: int = 0) -> Iterator[Problem]:
    """Yield problems of one split, no two with the same text and program.

    Every program passes its ten tests, and their answers differ: each truth value occurs at least
    twice, or there are at least four values. Recognizing repetitions takes a hundred bytes each.
    """
    seen: set[int] = set()
    for index in itertools.count():
        if len(seen) == count:
            return
        try:
            draft = _Writer(Random(f"{seed} {index}")).draft()
        except _Unusable:
            continue
        key = _hash(f"{draft.text}\n{draft.program}")
        if draft.split != split or key in seen:
            continue
        examples = _draw_examples(draft, Random(key))
        if examples is not None:
            seen.add(key)
            tests = ProgramTests(draft.arguments, draft.return_type, examples)
            yield Problem(draft.text, draft.program, tests)


@dataclasses.dataclass(frozen=True)
class Draft:
    """A problem without tests; its arguments are in the order in which the text declares them."""

    text: str
    program: str
    arguments: Mapping[str, str]
    return_type: str

    @property
    def split(self) -> str:
        """The split of the program; depends neither on the names of arguments nor on the text."""
        names: dict[str, str] = {}
        canonical = [
            names.setdefault(token, _LETTERS[len(names)]) if token in self.arguments else token
            for token in self.program.split(" ")
        ]
        share = _hash(" ".join(canonical)) / 2**64 * sum(PUBLISHED_SIZES.values())
        edges = list(itertools.accumulate(PUBLISHED_SIZES.values()))
        return list(PUBLISHED_SIZES)[bisect.bisect_left(edges, share)]


class _Unusable(Exception):
    """The draft is discarded, for example because it has no arguments or is too long."""


class _Writer:
    """Write one problem by expanding slots from the outside in; names start as `@` and a number.

    A longer phrase that would begin a text is named first ("let c be the square of a , find c plus
    b"), because "the square of a plus b" would read as the square of a sum.
    """

    def __init__(self, random: Random) -> None:
        self.random = random
        self.categories: dict[str, str] = {}  # category of each argument
        self.definitions: dict[str, str] = {}

    def draft(self) -> Draft:
        """Write a problem of random type and depth."""
        category = self._choose(_RETURNS)
        phrase, program = self._expand(category, self._choose(_DEPTHS))
        names = list(self.categories)
        if not names:
            raise _Unusable
        self.random.shuffle(names)
        parts = [f"{self.random.choice(OPENINGS)} {self._declaration(names)}"]
        for name, definition in self.definitions.items():
            parts.append(self.random.choice(DEFINITIONS).format(name=name, phrase=definition))
        requests = QUESTIONS if category == "bool" else REQUESTS
        parts.append(self.random.choice(requests).format(phrase=phrase))
        letters = dict(zip([*names, *self.definitions], _LETTERS, strict=False))
        words, tokens = (
            [letters.get(word, word) for word in text.split(" ")]
            for text in (" , ".join(parts), program)
        )
        if len(words) > _MAX_WORDS or len(tokens) > _MAX_TOKENS:
            raise _Unusable
        arguments = {letters[name]: ARGUMENTS[self.categories[name]][0] for name in names}
        return Draft(" ".join(words), " ".join(tokens), arguments, _RETURN_TYPES[category])

    def _expand(self, category: str, depth: int) -> tuple[str, str]:
        """Return a phrase and its program, with values nested at most `depth` deep."""
        if category in ARGUMENTS and depth == 0:
            return (self._argument(category),) * 2
        rules = RULES[category]
        program, slots, texts = self.random.choices(rules, [len(texts) for _, _, texts in rules])[0]
        depths = dict.fromkeys(slots, depth)
        if category in _RETURN_TYPES and slots:
            # One slot gets the full remaining depth, the others a random part of it.
            deepest, below = self.random.choice(slots), max(depth - 1, 0)
            depths = {
                slot: below if slot == deepest else self.random.randint(0, below) for slot in slots
            }
        phrases, parts = {}, {}
        for slot in slots:
            phrases[slot], parts[slot] = self._fill(slot.rstrip("2"), depths[slot])
        if len(set(parts.values())) < len(parts):
            raise _Unusable
        return self._word(category, texts, phrases), program.format(**parts)

    def _fill(self, category: str, depth: int) -> tuple[str, str]:
        text, program = self._expand(category, depth)
        if category in ARGUMENTS and depth and self.random.random() < _DEFINITION_SHARE:
            text = self._define(text)
        return text, program

    def _word(self, category: str, texts: Sequence[str], phrases: dict[str, str]) -> str:
        """Choose one of the wordings and fill in the phrases."""

        def first_slot(text: str) -> str:
            return text[1 : text.index("}")] if text.startswith("{") else ""

        def begins_long(text: str) -> bool:
            return category in ARGUMENTS and " " in phrases.get(first_slot(text), "")

        text = self.random.choice([text for text in texts if not begins_long(text)] or texts)
        if begins_long(text):
            phrases[first_slot(text)] = self._define(phrases[first_slot(text)])
        return text.format(**phrases)

    def _define(self, phrase: str) -> str:
        if len(self.definitions) == _MANY_DEFINITIONS:
            raise _Unusable
        name = self._new_name()
        self.definitions[name] = phrase
        return name

    def _argument(self, category: str) -> str:
        if category in CONSTANTS and self.random.random() < _CONSTANT_SHARE:
            return self.random.choice(CONSTANTS[category])
        known = [name for name, other in self.categories.items() if other == category]
        many = len(self.categories) >= _MANY_ARGUMENTS
        if known and (many or self.random.random() < _SHARED_ARGUMENT_SHARE):
            return self.random.choice(known)
        name = self._new_name()
        self.categories[name] = category
        return name

    def _new_name(self) -> str:
        return f"@{len(self.categories) + len(self.definitions)}"

    def _declaration(self, names: Sequence[str]) -> str:
        declared = []
        for category, group in itertools.groupby(names, self.categories.__getitem__):
            alike = list(group)
            one, several = self.random.choice(ARGUMENTS[category][1])
            declared.append(f"{one if len(alike) == 1 else several} {_listed(alike)}")
        return _listed(declared)

    def _choose(self, weights: Mapping[Any, int]) -> Any:
        return self.random.choices(list(weights), list(weights.values()))[0]


def _draw_examples(draft: Draft, random: Random) -> tuple[Example, ...] | None:
    """Draw ten tests that the program passes; None if it often fails or they show too little."""
    program = Program(draft.program, draft.arguments)
    examples: list[Example] = []
    for draw in range(_DRAWS):
        if draw == _TESTS and not examples:
            return None  # the program has failed on every input so far
        inputs = {name: draw_input(random, kind) for name, kind in draft.arguments.items()}
        try:
            output = program.run(inputs, _MAX_STEPS)
        except ProgramError:
            continue
        if _is_valid_answer(output, draft.return_type):
            examples.append(Example(inputs, output))
        if len(examples) == _TESTS:
            return tuple(examples) if _are_informative(examples, draft.return_type) else None
    return None


def _is_valid_answer(output: Any, type_name: str) -> bool:
    """Return whether an answer has its type, is short, and its numbers are moderate integers."""
    if not has_type(output, type_name) or size_of(output) > _LARGEST_OUTPUT:
        return False
    numbers = output if type_name == "int[]" else [output] if type_name == "int" else []
    return all(type(number) is int and abs(number) <= _LARGEST_NUMBER for number in numbers)


def _are_informative(examples: Sequence[Example], type_name: str) -> bool:
    """Return whether the answers differ and are not always equal to one of the arguments."""
    if type_name == "bool":
        return 2 <= sum(example.output for example in examples) <= len(examples) - 2
    if len({json.dumps(example.output) for example in examples}) < 4:
        return False
    names = examples[0].inputs
    return not any(all(one.inputs[name] == one.output for one in examples) for name in names)


def draw_input(random: Random, type_name: str) -> Any:
    """Draw a value of type `int`, `int[]`, `string` or `string[]` on which programs differ.

    Numbers are mostly small enough to be indices; some arrays are sorted, palindromes or
    repetitive.
    """
    if type_name == "int":
        return random.randrange(random.choice((5, 10, 30, 300)))
    if type_name == "string":
        return " ".join(_draw_word(random) for _ in range(random.choice((1, 1, 2, 4))))
    if type_name == "int[]":
        low, high = random.choice(((0, 30), (-10, 40), (0, 100), (0, 5)))
        step = random.choice((1, 1, 1, 2))  # sometimes all are even
        draw: Callable[[Random], Any] = lambda random: random.randrange(low, high, step)  # noqa: E731
    else:
        draw = _draw_word
    return _arrange(random, [draw(random) for _ in range(random.randint(3, 10))])


def _draw_word(random: Random) -> str:
    letters = random.choice((_LETTERS, "ab"))
    return "".join(_arrange(random, random.choices(letters, k=random.randint(1, 6))))


def _arrange(random: Random, elements: list) -> list:
    arrangement = random.random()
    if arrangement < 0.15:
        return sorted(elements)
    return elements + elements[-2::-1] if arrangement < 0.3 else elements


def _listed(words: Sequence[str]) -> str:
    return " and ".join([*filter(None, [" , ".join(words[:-1])]), words[-1]])


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
