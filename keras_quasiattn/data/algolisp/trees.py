"""Programs as nested lists and as tokens."""

import re
from typing import Final, TypeAlias

Tree: TypeAlias = "str | list[Tree]"

# The deepest brackets; published programs have about fifteen.
MAX_NESTING: Final = 110

_TOKEN = re.compile(r'" "|\S+')  # the space character is a constant of the language
_SHOWN_CHARACTERS = 40


class ProgramError(ValueError):
    """A program that cannot be read or run, with the reason in one line."""


def parse_program(text: str) -> Tree:
    """Reads a program written as tokens with blanks between them.

    Args:
        text: brackets, names and constants, such as `[ filter a is_prime ]` or `a`.

    Raises:
        ProgramError: there is no token, brackets do not match, are empty or too deep, or something follows
            the end; the message names the token's place, counted from 1.

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
                raise ProgramError(
                    f"token {place} opens more than {MAX_NESTING} brackets within each other"
                )
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
    """The tokens of a program with blanks between them; `parse_program` reads them back.

    >>> write_program(["+", "a", ["len", "b"]])
    '[ + a [ len b ] ]'
    """
    if isinstance(tree, str):
        return tree
    return f"[ {' '.join(map(write_program, tree))} ]"


def shorten(text: str) -> str:
    """The text escaped on one line, cut where it is long."""
    return repr(text) if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]!r}..."
