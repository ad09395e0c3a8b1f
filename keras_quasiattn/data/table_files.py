"""Rows of TSV, CSV and JSONL files, with the number of the line that each stands on."""

import csv
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from keras_quasiattn.errors import UserError
from keras_quasiattn.text import open_text

_FORMS = (".tsv", ".csv", ".jsonl")


def read_table(file: str | Path, columns: Sequence[str]) -> Iterator[tuple[int, dict[str, str]]]:
    r"""The wanted columns of a file's rows, one row after the other.

    TSV: the first line names the columns; fields are parted by tabs, rows by "\n" alone, and nothing is quoted.
    CSV: likewise with commas, and fields may be quoted with `"` as RFC 4180 has it. JSONL: an object a line.
    The file may be compressed (.gz, .xz). Columns beyond the wanted ones are passed over.

    Args:
        file: its name ends in .tsv, .csv or .jsonl, and then perhaps .gz or .xz.
        columns: the wanted columns.

    Yields:
        The number of the row's (last) line, counted from 1, and the fields by column; a JSON number is given as
        its text.

    Raises:
        UserError: the file cannot be read or has another form, naming the line; or it has no row.
    """
    file = Path(file)
    form = next((suffix for suffix in reversed(file.suffixes) if suffix in _FORMS), None)
    with open_text(file) as stream:
        if form == ".jsonl":
            rows = _json_rows(file, stream, columns)
        elif form == ".csv":
            rows = _delimited_rows(file, _csv_lines(file, stream), columns)
        elif form == ".tsv":
            lines = ((number, line.rstrip("\r\n").split("\t")) for number, line in enumerate(stream, 1))
            rows = _delimited_rows(file, lines, columns)
        else:
            raise UserError(
                f"{file} has a form that cannot be read: use {', '.join(_FORMS)} (or .gz, .xz after it)"
            )
        empty = True
        for row in rows:
            empty = False
            yield row
    if empty:
        raise UserError(f"{file} has no rows")


def _csv_lines(file: Path, stream: IO[str]) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(stream, strict=True)
    try:
        for fields in reader:
            yield reader.line_num, fields
    except csv.Error as error:
        raise UserError(f"{file}, line {reader.line_num}: {error}") from None


def _delimited_rows(
    file: Path, lines: Iterator[tuple[int, list[str]]], columns: Sequence[str]
) -> Iterator[tuple[int, dict[str, str]]]:
    _, header = next(lines, (1, []))
    missing = [column for column in columns if column not in header]
    if missing:
        raise UserError(
            f"{file}, line 1: the columns are {_listed(header)}: {_listed(columns)} must be among them"
        )
    places = {column: header.index(column) for column in columns}
    for number, fields in lines:
        if fields in ([], [""]) and len(header) > 1:
            continue
        if len(fields) != len(header):
            raise UserError(
                f"{file}, line {number}: {len(fields)} fields: {len(header)} would be right ({_listed(header)})"
            )
        yield number, {column: fields[place] for column, place in places.items()}


def _json_rows(file: Path, stream: IO[str], columns: Sequence[str]) -> Iterator[tuple[int, dict[str, str]]]:
    for number, line in enumerate(stream, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise UserError(f"{file}, line {number}: not JSON ({error})") from None
        if not isinstance(row, dict):
            raise UserError(f"{file}, line {number}: a JSON object with {_listed(columns)} would be right")
        for column in columns:
            if not isinstance(row.get(column), str | int) or isinstance(row.get(column), bool):
                raise UserError(
                    f"{file}, line {number}: {column!r} is {json.dumps(row.get(column))}: a text would be right"
                )
        yield number, {column: str(row[column]) for column in columns}


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names)) or "none"
