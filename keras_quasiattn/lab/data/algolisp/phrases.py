"""What generated problems may ask for: programs with slots, and the wordings of each.

The rules of a category follow its name in `phrases.txt`. A rule is a program, " : " and the
wordings, separated by " | "; an indented line continues it. A slot such as `{ints}` is filled with
a phrase of that category in the text, and with the program of that phrase in the program. A digit
distinguishes two slots of one category. The categories `int`, `ints`, `bool`, `string` and
`strings` are values, `condition` and `change` are functions of a number, `string_condition` and
`string_change` of a string. A `test` is an expression about the number `arg1`.
"""

from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Final

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


def _rules() -> dict[str, dict[str, list[str]]]:
    """Return the rules by category: each program, and the phrases that mean it."""
    text = resources.files(__package__).joinpath("phrases.txt").read_text(encoding="utf-8")
    for name, program in _ABBREVIATIONS.items():
        text = text.replace(name, program)
    rules: dict[str, dict[str, list[str]]] = {}
    for line in text.replace("\n  ", " ").strip().split("\n"):
        program, _, phrases = line.partition(" : ")
        if phrases:
            rules[[*rules][-1]][program] = phrases.split(" | ")
        else:
            rules[line] = {}
    return rules


PHRASES: Final[Mapping[str, Mapping[str, Sequence[str]]]] = _rules()
