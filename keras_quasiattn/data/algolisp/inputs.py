"""Draws inputs that are likely to show what a program does."""

from random import Random
from typing import Any

_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def draw_input(random: Random, type_name: str) -> Any:
    """Draws a value of the type `int`, `int[]`, `string` or `string[]`.

    Numbers are natural and mostly small enough to be positions; arrays contain negative ones too.
    Some arrays are sorted, are palindromes or have many repetitions, which would rarely happen by
    chance.
    """
    if type_name == "int":
        return random.randrange(random.choice((5, 10, 30, 300)))
    if type_name == "string":
        return " ".join(_word(random) for _ in range(random.choice((1, 1, 2, 4))))
    draw = _number_source(random) if type_name == "int[]" else _word
    return _arrange(random, [draw(random) for _ in range(random.randint(3, 10))])


def _number_source(random: Random) -> Any:
    low, high = random.choice(((0, 30), (-10, 40), (0, 100), (0, 5)))
    step = random.choice((1, 1, 1, 2))  # sometimes all are even
    return lambda random: random.randrange(low, high, step)


def _word(random: Random) -> str:
    letters = random.choice((_LETTERS, "ab"))
    return "".join(_arrange(random, random.choices(letters, k=random.randint(1, 6))))


def _arrange(random: Random, elements: list) -> list:
    arrangement = random.random()
    if arrangement < 0.15:
        return sorted(elements)
    return elements + elements[-2::-1] if arrangement < 0.3 else elements
