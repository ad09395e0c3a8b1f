"""Programs as nested lists and as tokens."""

import re
from typing import Final, TypeAlias

Tree: TypeAlias = "str | list[Tree]"

# How deep brackets may nest; in published programs it is about fifteen.
MAX_NESTING: Final = 110

_TOKEN = re.compile(r'" "|\S+')  # " " is a constant of the language
_SHOWN_CHARACTERS = 40


class ProgramError(ValueError):
    """A program cannot be read or run; the message gives the reason in one line."""


def parse_program(text: str) -> Tree:
    """Parses a program written as tokens separated by spaces.

    Args:
        text: brackets, names and constants, such as `[ filter a is_prime ]` or `a`.

    Raises:
        ProgramError: there are no tokens, brackets do not match, are empty or nest too deeply, or
            tokens follow the end; the message gives the position of the token, counted from 1.

    >>> parse_program("[ filter a [ partial0 b < ] ]")
    ['filter', 'a', ['partial0', 'b', '<']]
    """
    open_calls: list[list[Tree]] = []
    program: Tree | None = None
    for place, match in enumerate(_TOKEN.finditer(text), 1):
        token = match.group()
        if program is not None:
            raise ProgramError(
                f"token {place}, {shorten(token)}, comes after the end of the program"
            )
        if token == "[":
            if len(open_calls) == MAX_NESTING:
                raise ProgramError(f"token {place} nests brackets more than {MAX_NESTING} deep")
            open_calls.append([])
            continue
        tree: Tree = token
        if token == "]":
            if not open_calls:
                raise ProgramError(f"token {place} closes a bracket that was never opened")
            tree = open_calls.pop()
            if not tree:
                raise ProgramError(f"token {place} closes an empty bracket")
        if open_calls:
            open_calls[-1].append(tree)
        else:
            program = tree
    if open_calls:
        raise ProgramError(f"the program ends with {len(open_calls)} open brackets")
    if program is None:
        raise ProgramError("the program is empty")
    return program


def write_program(tree: Tree) -> str:
    """Writes a program as tokens separated by spaces, which `parse_program` reads.

    >>> write_program(["+", "a", ["len", "b"]])
    '[ + a [ len b ] ]'
    """
    if isinstance(tree, str):
        return tree
    return f"[ {' '.join(map(write_program, tree))} ]"


def shorten(text: str) -> str:
    """The text escaped on one line, cut if it is long."""
    return repr(text) if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]!r}..."
