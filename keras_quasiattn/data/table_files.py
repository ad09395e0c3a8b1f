"""Reads rows of TSV, CSV and JSONL files, with their line numbers."""

import csv
import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from keras_quasiattn.data.tab_separated import is_quoted, lines_of, plain_fields, quoted_fields
from keras_quasiattn.errors import UserError
from keras_quasiattn.text import open_text

_FORMS = (".tsv", ".csv", ".txt", ".jsonl")
# What may separate the fields of a spreadsheet: commas, or semicolons where commas are decimal.
_DELIMITERS = {".csv": ",;\t", ".txt": "\t;,"}


def read_table(
    file: str | Path,
    columns: Sequence[str],
    *,
    optional: Sequence[str] = (),
    quoted: bool = False,
    names: Mapping[str, str] | None = None,
) -> Iterator[tuple[int, dict[str, str]]]:
    r"""Yields the wanted columns of a file's rows, one row at a time.

    TSV: the first line names the columns. Fields are separated by tabs and rows by "\n" only (by
    "\r" in a file without "\n"). Nothing is quoted, unless all quotes in the file are those of a
    program that quotes fields with tabs, quotes or line breaks, such as pandas. CSV, as
    spreadsheets write it: the same with commas, semicolons or tabs, whichever the first line has;
    fields may be quoted with `"` as in RFC 4180; a first line such as `sep=;` and rows of empty
    fields are skipped. TXT: as CSV. JSONL: each line is an object or a list of objects. The file
    may be compressed (.gz, .xz). Other columns are ignored.

    Args:
        file: its name ends in .tsv, .csv, .txt or .jsonl, optionally followed by .gz or .xz.
        columns: the wanted columns.
        optional: columns to include if the file (in JSONL, the row) has them.
        quoted: whether the fields of a TSV may be quoted like those of a CSV.
        names: by wanted column, its name in the file, where that is another.

    Yields:
        The number of the row's (last) line, counted from 1, and the fields by column; a JSON number
        is converted to text.

    Raises:
        UserError: the file cannot be read, has another format (the message names the line) or has
            no rows; or `names` has a column that is not wanted.
    """
    file, names = Path(file), names or {}
    for column in names:
        if column not in (*columns, *optional):
            raise UserError.unknown("column", column, (*columns, *optional))
    ours = {names.get(column, column): column for column in (*columns, *optional)}
    columns = [names.get(column, column) for column in columns]
    optional = [names.get(column, column) for column in optional]
    form = next((suffix for suffix in reversed(file.suffixes) if suffix in _FORMS), None)
    with open_text(file, newline="") as stream:
        if form == ".jsonl":
            rows = _json_rows(file, stream, columns, optional)
        elif form in _DELIMITERS:
            lines = _spreadsheet_lines(file, stream, _DELIMITERS[form], columns)
            rows = _delimited_rows(file, lines, columns, optional, ours)
        elif form == ".tsv" and quoted:
            lines = _quoted_lines(file, stream, "\t")
            rows = _delimited_rows(file, lines, columns, optional, ours)
        elif form == ".tsv":
            with open_text(file, newline="") as whole:
                of_a_quoter = is_quoted(lines_of(whole))
            lines = (
                quoted_fields(file, lines_of(stream))
                if of_a_quoter
                else plain_fields(lines_of(stream))
            )
            rows = _delimited_rows(file, lines, columns, optional, ours)
        else:
            raise UserError(
                f"{file} has an unsupported file extension: use {', '.join(_FORMS)} "
                "(.gz or .xz may follow)"
            )
        for number, row in _at_least_one(file, rows):
            yield number, {ours[column]: field for column, field in row.items()}


def read_inputs(
    file: str | Path, columns: Sequence[str], names: Mapping[str, str] | None = None
) -> list[tuple[str, str | None]]:
    """Reads the rows of a table as inputs of `predict`, with their labels where there are any.

    Args:
        file: as for `read_table`.
        columns: the columns that make an input, joined by tabs; tabs and line breaks inside of
            their texts become spaces.
        names: as for `read_table`; "label" may be among them.

    Raises:
        UserError: as for `read_table`.
    """
    return [
        ("\t".join(re.sub(r"[\t\n]", " ", row[column]) for column in columns), row.get("label"))
        for _, row in read_table(file, columns, optional=("label",), names=names)
    ]


def read_parallel(files: Mapping[str, str | Path]) -> Iterator[tuple[int, dict[str, str]]]:
    """Yields the lines of several one-column files side by side.

    Args:
        files: the file of each column; it may be compressed (.gz, .xz).

    Yields:
        The line number, counted from 1, and the lines by column.

    Raises:
        UserError: a file cannot be read or is empty, or the files differ in their number of lines.
    """
    columns = [_lines(Path(file)) for file in files.values()]
    for number, fields in enumerate(itertools.zip_longest(*columns), 1):
        if None in fields:
            counts = [f"{file} has {sum(1 for _ in _lines(Path(file)))}" for file in files.values()]
            raise UserError(f"the files have different numbers of lines: {', '.join(counts)}")
        yield number, dict(zip(files, fields, strict=True))


def _lines(file: Path) -> Iterator[str]:
    with open_text(file, newline="") as stream:
        yield from _at_least_one(file, (line.rstrip("\r\n") for line in lines_of(stream)))


def _at_least_one(file: Path, rows: Iterator[Any]) -> Iterator[Any]:
    empty = True
    for row in rows:
        empty = False
        yield row
    if empty:
        raise UserError(f"{file} has no rows")


def _spreadsheet_lines(
    file: Path, stream: IO[str], delimiters: str, columns: Sequence[str]
) -> Iterator[tuple[int, list[str]]]:
    """Yields the lines of a file, split at the delimiter that its header has."""
    first = stream.readline()
    if said := re.fullmatch(r"sep=(.)\s*", first):
        yield from _quoted_lines(file, stream, said[1], before=1)
        return

    def found(delimiter: str) -> tuple[bool, int]:
        (_, header), *_ = [*_quoted_lines(file, [first], delimiter, strict=False), (1, [])]
        return set(columns) <= set(header), len(header)

    lines = itertools.chain([first] if first else [], stream)
    yield from _quoted_lines(file, lines, max(delimiters, key=found))


def _quoted_lines(
    file: Path, stream: Iterable[str], delimiter: str, before: int = 0, strict: bool = True
) -> Iterator[tuple[int, list[str]]]:
    csv.field_size_limit(2**31 - 1)  # for the whole process; the default rejects texts over 128 KiB
    reader = csv.reader(stream, delimiter=delimiter, strict=strict)
    number = before
    try:
        for fields in reader:
            number = before + reader.line_num
            yield number, fields
    except csv.Error as error:
        raise UserError(
            f"{file}, line {number + 1}: {error} (up to line {before + reader.line_num})"
        ) from None


def _delimited_rows(
    file: Path,
    lines: Iterator[tuple[int, list[str]]],
    columns: Sequence[str],
    optional: Sequence[str],
    ours: Mapping[str, str],
) -> Iterator[tuple[int, dict[str, str]]]:
    _, header = next(lines, (1, []))
    if any("\0" in name for name in header):
        raise UserError(f"{file}, line 1: NUL characters; is it UTF-16? Save it as UTF-8")
    missing = [column for column in columns if column not in header]
    if missing:
        raise UserError(
            f"{file}, line 1: the columns are {_listed(header)}: "
            f"{_listed(columns)} must be among them, or name yours, "
            f"such as --columns {ours[columns[0]]}=NAME"
        )
    wanted = [*columns, *(column for column in optional if column in header)]
    places = {column: header.index(column) for column in wanted}
    for number, fields in lines:
        if not any(fields) and len(header) > 1:
            continue
        if len(fields) != len(header):
            raise UserError(
                f"{file}, line {number}: {len(fields)} fields, expected {len(header)} "
                f"({_listed(header)})"
            )
        yield number, {column: fields[place] for column, place in places.items()}


def _json_rows(
    file: Path, stream: IO[str], columns: Sequence[str], optional: Sequence[str]
) -> Iterator[tuple[int, dict[str, str]]]:
    for number, row in read_objects(file, stream, columns):
        wanted = [*columns, *(column for column in optional if column in row)]
        for column in wanted:
            if not isinstance(row.get(column), str | int) or isinstance(row.get(column), bool):
                raise UserError(
                    f"{file}, line {number}: {column!r} is {json.dumps(row.get(column))}: "
                    "expected a text or an integer"
                )
        yield number, {column: str(row[column]) for column in wanted}


def read_objects(
    file: Path, stream: Iterable[str], columns: Sequence[str]
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields the objects of a JSONL file with their line numbers, without checking their fields.

    Args:
        file: the name of the file, for errors.
        stream: its lines.
        columns: the expected columns, for errors.
    """
    for number, line in enumerate(stream, 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
            if "\\u" in line:
                json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise UserError(
                f"{file}, line {number}: invalid Unicode escape: unpaired surrogate"
            ) from None
        except (ValueError, RecursionError) as error:
            raise UserError(f"{file}, line {number}: not JSON ({error})") from None
        for row in value if isinstance(value, list) else [value]:
            if not isinstance(row, dict):
                raise UserError(
                    f"{file}, line {number}: expected a JSON object with {_listed(columns)}"
                )
            yield number, row


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names)) or "none"
