"""Generates problems: a text, the program it asks for, and ten tests."""

import dataclasses
import hashlib
import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any, Final

from keras_quasiattn.data.algolisp.inputs import draw_input
from keras_quasiattn.data.algolisp.interpreter import Program
from keras_quasiattn.data.algolisp.phrases import (
    ARGUMENTS,
    CONSTANTS,
    DEFINITIONS,
    OPENINGS,
    PHRASES,
    QUESTIONS,
    REQUESTS,
)
from keras_quasiattn.data.algolisp.problems import Example, Problem, ProgramTests
from keras_quasiattn.data.algolisp.trees import ProgramError
from keras_quasiattn.data.algolisp.values import has_type, size_of

# Problems in the published splits; generated programs are split in the same proportions.
PUBLISHED_SIZES: Final = {"train": 79_214, "validation": 9_352, "test": 10_940}

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

_NAMES = "abcdefghijklmnopqrstuvwxyz"
_RETURN_TYPES = {
    **{category: type_name for category, (type_name, _) in ARGUMENTS.items()},
    "bool": "bool",
}
_RULES: Final = {
    category: [
        (program, list(dict.fromkeys(re.findall(r"{(\w+)}", program))), texts)
        for program, texts in rules.items()
    ]
    for category, rules in PHRASES.items()
}


@dataclasses.dataclass(frozen=True)
class Draft:
    """A problem without tests.

    Args:
        text: words separated by spaces.
        program: tokens separated by spaces.
        arguments: type of each argument by name, in the order in which the text declares them.
        return_type: type of the program's value.
    """

    text: str
    program: str
    arguments: Mapping[str, str]
    return_type: str

    @property
    def split(self) -> str:
        """The split of the program; depends neither on the names of arguments nor on the text."""
        names: dict[str, str] = {}
        tokens = self.program.split(" ")
        canonical = [
            names.setdefault(token, _NAMES[len(names)]) if token in self.arguments else token
            for token in tokens
        ]
        share = _hash(" ".join(canonical)) / 2**64 * sum(PUBLISHED_SIZES.values())
        edges = itertools.accumulate(PUBLISHED_SIZES.values())
        return next(
            split for split, edge in zip(PUBLISHED_SIZES, edges, strict=True) if share <= edge
        )


def _first_slot(text: str) -> str:
    """The slot at the beginning of a text, or "" if there is none."""
    return text[1 : text.index("}")] if text.startswith("{") else ""


class _Unusable(Exception):
    """The draft is discarded, for example because it has no arguments or is too long."""


class _Writer:
    """Writes one problem by expanding slots from the outside in; names start as `@` and a number.

    "the square of a plus b" reads as the square of a sum, because what follows a name is read
    together with it. So a longer phrase that would begin a text is first given a name of its own
    ("let c be the square of a , find c plus b").
    """

    def __init__(self, random: Random) -> None:
        self.random = random
        self.categories: dict[str, str] = {}  # category of each argument
        self.definitions: dict[str, str] = {}

    def expand(self, category: str, depth: int) -> tuple[str, str]:
        """A phrase and its program, with values nested at most `depth` deep."""
        if category in ARGUMENTS and depth == 0:
            return self._argument(category)
        rules = _RULES[category]
        program, slots, texts = self.random.choices(rules, [len(texts) for _, _, texts in rules])[0]
        depths = dict.fromkeys(slots, depth)
        if category in _RETURN_TYPES and slots:
            # One slot gets all of the remaining depth, the others a random part of it.
            deepest = self.random.choice(slots)
            below = max(depth - 1, 0)
            depths = {
                slot: below if slot == deepest else self.random.randint(0, below) for slot in slots
            }
        parts = {slot: self._slot(slot.rstrip("2"), depths[slot]) for slot in slots}
        if len({part for _, part in parts.values()}) < len(parts):
            raise _Unusable
        text = self._say(category, texts, {slot: phrase for slot, (phrase, _) in parts.items()})
        return text, program.format(**{slot: part for slot, (_, part) in parts.items()})

    def _say(self, category: str, texts: Sequence[str], phrases: dict[str, str]) -> str:
        def begins_long(text: str) -> bool:
            return category in ARGUMENTS and " " in phrases.get(_first_slot(text), "")

        text = self.random.choice([text for text in texts if not begins_long(text)] or texts)
        if begins_long(text):
            phrases[_first_slot(text)] = self._define(phrases[_first_slot(text)])
        return text.format(**phrases)

    def _slot(self, category: str, depth: int) -> tuple[str, str]:
        text, program = self.expand(category, depth)
        if category in ARGUMENTS and depth and self.random.random() < _DEFINITION_SHARE:
            text = self._define(text)
        return text, program

    def _define(self, phrase: str) -> str:
        if len(self.definitions) == _MANY_DEFINITIONS:
            raise _Unusable
        name = self._new_name()
        self.definitions[name] = phrase
        return name

    def _argument(self, category: str) -> tuple[str, str]:
        if category in CONSTANTS and self.random.random() < _CONSTANT_SHARE:
            name = self.random.choice(CONSTANTS[category])
            return name, name
        known = [name for name, other in self.categories.items() if other == category]
        many = len(self.categories) >= _MANY_ARGUMENTS
        if known and (many or self.random.random() < _SHARED_ARGUMENT_SHARE):
            name = self.random.choice(known)
        else:
            name = self._new_name()
            self.categories[name] = category
        return name, name

    def _new_name(self) -> str:
        return f"@{len(self.categories) + len(self.definitions)}"

    def draft(self) -> Draft:
        """Writes a problem of random type and depth."""
        category = _choose(self.random, _RETURNS)
        phrase, program = self.expand(category, _choose(self.random, _DEPTHS))
        names = list(self.categories)
        if not names:
            raise _Unusable
        self.random.shuffle(names)
        parts = [f"{self.random.choice(OPENINGS)} {self._declaration(names)}"]
        for name, definition in self.definitions.items():
            parts.append(self.random.choice(DEFINITIONS).format(name=name, phrase=definition))
        requests = QUESTIONS if category == "bool" else REQUESTS
        parts.append(self.random.choice(requests).format(phrase=phrase))
        letters = dict(zip([*names, *self.definitions], _NAMES, strict=False))
        words, tokens = (
            [letters.get(word, word) for word in text.split(" ")]
            for text in (" , ".join(parts), program)
        )
        if len(words) > _MAX_WORDS or len(tokens) > _MAX_TOKENS:
            raise _Unusable
        arguments = {letters[name]: ARGUMENTS[self.categories[name]][0] for name in names}
        return Draft(" ".join(words), " ".join(tokens), arguments, _RETURN_TYPES[category])

    def _declaration(self, names: Sequence[str]) -> str:
        declared = []
        for category, group in itertools.groupby(names, self.categories.__getitem__):
            alike = list(group)
            one, several = self.random.choice(ARGUMENTS[category][1])
            declared.append(
                f"{one} {alike[0]}" if len(alike) == 1 else f"{several} {_listed(alike)}"
            )
        return _listed(declared)


def generate_problems(split: str, count: int, seed: int = 0) -> Iterator[Problem]:
    """Yields problems of one split, no two with the same text and program.

    Every program passes its own ten tests, and their answers differ: each truth value occurs at
    least twice, or there are at least four values. No program of one split is in another, not even
    with other argument names. Memory is a hundred bytes per problem, to recognize repetitions.

    Args:
        split: "train", "validation" or "test".
        count: number of problems.
        seed: another seed gives other problems; with the same seed, a smaller count gives the first
            of them.
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
            yield Problem(
                draft.text,
                draft.program,
                ProgramTests(draft.arguments, draft.return_type, examples),
            )


def _draw_examples(draft: Draft, random: Random) -> tuple[Example, ...] | None:
    """Ten tests that the program passes, or None if it often fails or the tests tell little."""
    program = Program(draft.program, draft.arguments)
    examples: list[Example] = []
    for draw in range(_DRAWS):
        if draw == _TESTS and not examples:
            return None  # it failed on every input so far
        inputs = {
            name: draw_input(random, type_name) for name, type_name in draft.arguments.items()
        }
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
    """Whether an answer has its type, is short, and its numbers are integers and not too large."""
    if not has_type(output, type_name) or size_of(output) > _LARGEST_OUTPUT:
        return False
    numbers = output if type_name == "int[]" else [output] if type_name == "int" else []
    return all(type(number) is int and abs(number) <= _LARGEST_NUMBER for number in numbers)


def _are_informative(examples: Sequence[Example], type_name: str) -> bool:
    """Whether the answers differ and are not always equal to one of the arguments."""
    if type_name == "bool":
        return 2 <= sum(example.output for example in examples) <= len(examples) - 2
    if len({json.dumps(example.output) for example in examples}) < 4:
        return False
    names = examples[0].inputs
    return not any(
        all(example.inputs[name] == example.output for example in examples) for name in names
    )


def _choose(random: Random, weights: Mapping[Any, int]) -> Any:
    return random.choices(list(weights), list(weights.values()))[0]


def _listed(words: Sequence[str]) -> str:
    return " and ".join([*filter(None, [" , ".join(words[:-1])]), words[-1]])


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
