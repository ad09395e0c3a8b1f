r"""Splits tab-separated files, some of which have quoted fields.

Most programs that write .tsv quote nothing, and a quote is part of the text. Others, such as
pandas, quote a field that has a tab, a quote or a line break, and double its quotes. Only the whole
file tells: `is_quoted` looks for a quote that the second kind would not have written.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from keras_quasiattn.errors import UserError

_FIELD = re.compile(r'(?:"([^"]*(?:""[^"]*)*)"|([^"\t]*))(\t|\Z)')


def lines_of(stream: Iterable[str]) -> Iterator[str]:
    r"""Yields lines with their ends: "\n", or "\r" in a file that has no "\n".

    Args:
        stream: the text, opened with `newline=""`.
    """
    parts: list[str] = []
    fed = False
    for part in stream:
        parts.append(part)
        if part.endswith("\n"):
            fed = True
            yield "".join(parts)
            parts = []
    yield from ["".join(parts)] if fed and parts else parts


def plain_fields(lines: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
    """Yields the number and the fields of each line; quotes are part of the text."""
    for number, line in enumerate(lines, 1):
        yield number, line.rstrip("\r\n").split("\t")


def quoted_fields(file: Path, lines: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
    """Yields the number of each row's last line, and its fields, of which some are quoted.

    Raises:
        UserError: a quote is not closed or not doubled; the message names file and line.
    """
    for number, row in _rows(lines):
        found = _fields(row)
        if found is None:
            raise UserError(
                f"{file}, line {number - len(row) + 1}: a quote is not closed, or not doubled "
                "within a quoted field"
            )
        yield (
            number,
            [one[2] if one[1] is None else one[1].replace('""', '"') for one in found],
        )


def is_quoted(lines: Iterable[str]) -> bool:
    """Whether a program that quotes wrote the file, judging by all of its quotes.

    It quotes either every field, so those of the header too, or those that need it. If the file is
    right with quotes as text too, those that would join lines are text, unless another line has
    quotes that were doubled within a quoted field, which nobody types.
    """
    rows = _rows(lines)
    header = _fields(next(rows, (1, [""]))[1])
    if header is None:
        return False
    if all(one[1] is not None for one in header):
        return True
    known = joined = doubled = False
    right_as_text = len(header) > 1
    for _, row in rows:
        right_as_text &= all(line.count("\t") == len(header) - 1 or line.isspace() for line in row)
        if not any('"' in line for line in row):
            continue
        found = _fields(row)
        if found is None:
            return False
        contents = [one[1] for one in found if one[1] is not None]
        if not all(re.search('["\t\r\n]', content) for content in contents if content):
            return False
        joined |= len(row) > 1
        doubled |= len(row) == 1 and any('""' in content for content in contents)
        known |= any(contents) or len(header) == 1  # an empty row of one field is quoted
    return known and (doubled or not (joined and right_as_text))


def _rows(lines: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
    """Yields lines that belong together if quotes have a meaning, and the last one's number."""
    row: list[str] = []
    number = quotes = 0
    for number, line in enumerate(lines, 1):
        row.append(line)
        quotes += line.count('"')
        if quotes % 2 == 0:
            yield number, row
            row, quotes = [], 0
    if row:
        yield number, row


def _fields(row: Sequence[str]) -> list[re.Match[str]] | None:
    """The fields of a row, of which group 1 is quoted and group 2 is not; None if it is neither."""
    text = "".join(row).rstrip("\r\n")
    found: list[re.Match[str]] = []
    while not found or found[-1][3]:
        one = _FIELD.match(text, found[-1].end() if found else 0)
        if one is None:
            return None
        found.append(one)
    return found
