"""Read rows of TSV, CSV, TXT, JSONL, Parquet and Excel files, with their numbers; write JSONL."""

import collections
import csv
import io
import itertools
import json
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

import numpy as np
import tensorflow as tf

from keras_quasiattn.errors import FileError, UserError, first_line
from keras_quasiattn.extras import require
from keras_quasiattn.files import write
from keras_quasiattn.lab.text import open_text
from keras_quasiattn.lab.text.open_text import format_of

_FORMS = (".tsv", ".csv", ".txt", ".jsonl", ".parquet", ".xlsx")
# Separators of spreadsheet fields: commas, or semicolons where the comma is the decimal point.
_DELIMITERS = {".csv": ",;\t", ".txt": "\t;,"}

_Fields = Iterator[tuple[int, list[str]]]  # the number of a row's last line, and the row's fields
_Rows = Iterator[tuple[int, dict[str, str]]]  # and by column


def read_table(
    file: str | Path,
    columns: Sequence[str],
    *,
    optional: Sequence[str] = (),
    quoted: bool = False,
    names: Mapping[str, str] | None = None,
) -> Iterator[tuple[int, dict[str, str]]]:
    r"""Yield the requested columns of a file, one row at a time.

    TSV: the first line names the columns. Tabs separate fields, and "\n" alone separates rows ("\r"
    in a file without "\n"). Quotes are ordinary characters, unless every quote in the file could
    come from a program such as pandas, which quotes fields that contain tabs, quotes or line
    breaks.

    CSV, as spreadsheets write it: the same with commas, semicolons or tabs, depending on the first
    line. Fields may be quoted with `"` as in RFC 4180. A first line such as `sep=;` and rows of
    empty fields are skipped. TXT is read like CSV.

    JSONL: each line is an object or a list of objects. Parquet: the number of a row takes the place
    of the line number.

    XLSX: the first sheet. Its first row names the columns, and an empty cell is an empty text. A
    formula has the value that it had when the file was saved.

    The file may be compressed (.gz, .xz), except Parquet and XLSX. Other columns are ignored, and
    so are blanks around the name of a requested one.

    Args:
        file: a file whose name ends in .tsv, .csv, .txt, .jsonl, .parquet or .xlsx; .gz or .xz may
            follow.
        columns: the requested columns.
        optional: columns to include if the file (in JSONL and Parquet, the row) has them; null
            counts as missing.
        quoted: whether the fields of a TSV may be quoted like those of a CSV.
        names: the name in the file of each requested column that has a different name there.

    Yields:
        The number of the row's (last) line, counted from 1, and the fields by column. Numbers and
        truth values in JSONL, Parquet or XLSX become texts: "1" for 1 and for 1.0, "0.5", "True".

    Raises:
        UserError: the file cannot be read, has another format (the message names the line), has a
            requested column twice or has no rows; or `names` contains a column that was not
            requested, or one name twice.
    """
    csv.field_size_limit(2**31 - 1)  # for this process; the default rejects texts over 128 KiB
    file, names = Path(file), names or {}
    known = (*columns, *optional)
    our_names: dict[str, str] = {}
    for column in names:
        UserError.check("column", column, known)
    for column in known:
        name = names.get(column, column)
        if name in our_names:
            raise UserError(
                f"the columns {our_names[name]!r} and {column!r} are both {name!r} in {file}: "
                f"each needs its own, such as --columns {column}=NAME"
            )
        our_names[name] = column
    columns = [names.get(column, column) for column in columns]
    optional = [names.get(column, column) for column in optional]
    wanted = _Wanted(file, columns, optional, our_names)
    form = format_of(file, _FORMS)
    with open_text(file, newline="") as stream:
        if form == ".jsonl":
            rows = _typed_rows(wanted, read_objects(file, stream, columns))
        elif form == ".parquet":
            rows = _typed_rows(wanted, _parquet_rows(wanted))
        elif form == ".xlsx":
            rows = _delimited_rows(wanted, _sheet_fields(file))
        else:
            if form is None:
                raise UserError(
                    f"{file} has an unsupported file extension: use {', '.join(_FORMS)} "
                    "(.gz or .xz may follow)"
                )
            if form in _DELIMITERS:
                lines = _spreadsheet_fields(wanted, stream, _DELIMITERS[form])
            else:
                lines = _csv_fields(file, stream, "\t") if quoted else _tsv_fields(file, stream)
            rows = _delimited_rows(wanted, lines)
        for number, row in _at_least_one(file, rows):
            yield number, {our_names[column]: field for column, field in row.items()}


def read_inputs(
    file: str | Path, columns: Sequence[str], names: Mapping[str, str] | None = None
) -> list[tuple[str, str | None]]:
    """Read the rows of a table as inputs of `predict`, each with its label or None.

    Tabs join the `columns` that form an input; tabs and line breaks inside them become spaces.
    "label" may be among the `names`, which are as for `read_table`, as are the errors.
    """
    return [
        ("\t".join(re.sub(r"[\t\n]", " ", row[column]) for column in columns), row.get("label"))
        for _, row in read_table(file, columns, optional=("label",), names=names)
    ]


def read_parallel(files: Mapping[str, str | Path]) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the lines of several files of one column, side by side, with their number from 1.

    `files` has the file of each column, which may be compressed (.gz, .xz).

    Raises:
        UserError: a file cannot be read or is empty, or the files differ in their number of lines.
    """
    columns = [_whole_lines(Path(file)) for file in files.values()]
    for number, fields in enumerate(itertools.zip_longest(*columns), 1):
        if None in fields:
            counts = [
                f"{file} has {sum(1 for _ in _whole_lines(Path(file)))}" for file in files.values()
            ]
            raise UserError(f"the files have different numbers of lines: {', '.join(counts)}")
        yield number, dict(zip(files, fields, strict=True))


def read_objects(
    file: Path, stream: Iterable[str], columns: Sequence[str]
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the objects of a JSONL file with their line numbers; errors name the `columns`."""
    for number, line in enumerate(stream, 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line, object_pairs_hook=_object)
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


def is_list_of_texts(value: Any) -> bool:
    """Return whether a JSON value is a list of texts, perhaps empty."""
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"an object has {twice!r} twice")
    return value


class _Wanted(NamedTuple):
    """The wanted columns, by their names in the file, and our name of each."""

    file: Path
    columns: Sequence[str]
    optional: Sequence[str]
    our_names: Mapping[str, str]

    def header(self, names: Iterable[str]) -> list[str]:
        """Return a file's column names, those of wanted columns without blanks around them."""
        found = list(names)
        plain = self.our_names.keys() - set(found)
        return [name.strip() if name.strip() in plain else name for name in found]

    def once(self, place: str, header: Sequence[str]) -> list[str]:
        """Return the wanted columns of a header, which must have each once."""
        missing = [column for column in self.columns if column not in header]
        if missing:
            named = ",".join(f"{self.our_names[column]}=NAME" for column in missing)
            raise UserError(
                f"{place}: the columns are {_listed(header)}: {_listed(self.columns)} must be "
                f"among them, or name yours, such as --columns {named}"
            )
        found = [*self.columns, *(column for column in self.optional if column in header)]
        for column in found:
            if header.count(column) > 1:
                raise UserError(
                    f"{place}: {header.count(column)} columns are named {column!r}: "
                    "which of them is meant? Rename the others"
                )
        return found


def _parquet_rows(wanted: _Wanted) -> Iterator[tuple[int, dict[str, Any]]]:
    pyarrow = require("pyarrow", "tasks")  # TensorFlow Datasets brings it; slow to import
    files = require("pyarrow.parquet", "tasks")

    try:
        parquet = files.ParquetFile(wanted.file)
        names = parquet.schema_arrow.names
        header = wanted.header(names)
        columns = wanted.once(str(wanted.file), header)
        # Python cannot represent every other column.
        batches = parquet.iter_batches(columns=[names[header.index(one)] for one in columns])
        rows = itertools.chain.from_iterable(batch.to_pylist() for batch in batches)
        yield from enumerate(rows, 1)
    except UnicodeDecodeError as error:
        raise UserError(f"{wanted.file}: a text is not UTF-8: {error.reason}") from None
    except (pyarrow.ArrowException, OSError) as error:
        raise UserError(f"{wanted.file} is not a Parquet file: {first_line(error)}") from None


def _sheet_fields(file: Path) -> _Fields:
    openpyxl = require("openpyxl", "tasks")  # slow to import
    escape = require("openpyxl.utils.escape", "tasks")

    def as_text(cell: Any) -> str:
        if not isinstance(cell, str):
            return "" if cell is None else _as_text(cell)
        # A control character is written as, for example, `_x000D_`, which openpyxl leaves there.
        return escape.unescape(cell).encode("utf-8", "replace").decode()

    try:
        with open(file, "rb") as stream:
            with warnings.catch_warnings():  # about parts that are not cells, such as styles
                warnings.simplefilter("ignore")
                workbook = openpyxl.load_workbook(stream, read_only=True, data_only=True)
            sheet = workbook.worksheets[0]
            sheet.reset_dimensions()  # some programs state fewer than there are
            width = 0
            for number, cells in enumerate(sheet.iter_rows(values_only=True), 1):
                fields = [as_text(cell) for cell in cells]
                while len(fields) > width and not fields[-1]:  # cells that were used once
                    fields.pop()
                width = width or len(fields)
                yield number, fields and fields + [""] * (width - len(fields))
    except Exception as error:
        # A damaged file can fail in openpyxl, in `zipfile`, or in the XML parser.
        raise UserError(f"{file} is not an Excel workbook (.xlsx): {error}") from None


def _typed_rows(wanted: _Wanted, rows: Iterator[tuple[int, dict[str, Any]]]) -> _Rows:
    for number, row in rows:
        place = f"{wanted.file}, line {number}"
        header = wanted.header(row)
        found, row = wanted.once(place, header), dict(zip(header, row.values(), strict=True))
        present = (one for one in found if one in wanted.columns or row[one] is not None)
        chosen = {column: row[column] for column in present}
        for column, value in chosen.items():
            if not isinstance(value, str | int | float) or value != value:  # NaN
                raise UserError(
                    f"{place}: {column!r} is {json.dumps(value, default=str):.60}: "
                    "expected a text or a number"
                )
        yield number, {column: _as_text(value) for column, value in chosen.items()}


def _as_text(value: Any) -> str:
    """Return a value as `write_table` writes it: pandas makes 1.0 of integers with gaps."""
    whole = isinstance(value, float) and value.is_integer()
    return str(int(value) if whole else value)


def _delimited_rows(wanted: _Wanted, lines: _Fields) -> _Rows:
    first, header = next(lines, (1, []))
    header = wanted.header(header)
    place = f"{wanted.file}, line"
    if any("\0" in name for name in header):
        raise UserError(
            f"{place} {first}: NUL characters; is it UTF-16 or UTF-32? Save it as UTF-8"
        )
    places = {column: header.index(column) for column in wanted.once(f"{place} {first}", header)}
    for number, fields in lines:
        # A row of one empty text has quotes; one without is blank.
        if not fields or (not any(fields) and len(header) > 1):
            continue
        if len(fields) != len(header):
            raise UserError(
                f"{place} {number}: {len(fields)} fields, expected {len(header)} "
                f"({_listed(header)})"
            )
        yield number, {column: fields[at] for column, at in places.items()}


def _spreadsheet_fields(wanted: _Wanted, stream: IO[str], delimiters: str) -> _Fields:
    """Split rows at the delimiter that the header names or contains."""
    file, first = wanted.file, stream.readline()
    if named := re.fullmatch(r"sep=(.)\s*", first):
        yield from _csv_fields(file, stream, named[1], before=1)
        return

    def fitness(delimiter: str) -> tuple[bool, int]:
        (_, header), *_ = [*_csv_fields(file, [first], delimiter, strict=False), (1, [])]
        return set(wanted.columns) <= set(wanted.header(header)), len(header)

    lines = itertools.chain([first] if first else [], stream)
    yield from _csv_fields(file, lines, max(delimiters, key=fitness))


def _csv_fields(
    file: Path, stream: Iterable[str], delimiter: str, before: int = 0, strict: bool = True
) -> _Fields:
    reader = csv.reader(stream, delimiter=delimiter, strict=strict)
    number = before
    try:
        for fields in reader:
            number = before + reader.line_num
            yield number, fields
    except csv.Error as error:
        raise UserError(
            f"{file}, line {number + 1}: {error} (up to line {before + reader.line_num}): "
            "is a quote not closed, or not doubled?"
        ) from None


def _tsv_fields(file: Path, stream: IO[str]) -> _Fields:
    with open_text(file, newline="") as whole:
        quoted = _is_quoted(_lines(whole))
    if quoted:
        yield from _csv_fields(file, _lines(stream), "\t")
    else:
        for number, line in enumerate(_lines(stream), 1):
            fields = line.rstrip("\r\n")
            yield number, fields.split("\t") if fields else []


def _is_quoted(lines: Iterable[str]) -> bool:
    """Return whether the program that wrote a TSV quotes fields, judging by all its quotes.

    Programs such as pandas quote either every field, or only those with a tab, a quote or a line
    break, and double the quotes inside. If any quote fits neither pattern, all quotes are text;
    also if they would join the lines of a table that is valid either way, unless another line has
    doubled quotes inside a quoted field, which nobody types.
    """
    taken: list[str] = []  # the lines of one row
    rows = csv.reader((taken.append(line) or line for line in lines), "excel-tab", strict=True)  # type: ignore[func-returns-value]
    known = joined = doubled = False
    right_as_text, tabs = True, -1
    try:
        for row in rows:
            text = "".join(taken).rstrip("\r\n")
            if tabs < 0:
                tabs = len(row) - 1
                if '"' in text and text == _written(row, csv.QUOTE_ALL):
                    return True
            right_as_text &= all(line.count("\t") == tabs > 0 or line.isspace() for line in taken)
            if '"' in text and text != _written(row, csv.QUOTE_MINIMAL):
                return False
            known |= '"' in text
            joined |= len(taken) > 1
            doubled |= len(taken) == 1 and any('"' in field for field in row)
            taken.clear()
    except csv.Error:
        return False
    return known and (doubled or not (joined and right_as_text))


def _written(row: Sequence[str], quoting: Literal[0, 1]) -> str:
    text = io.StringIO()
    csv.writer(text, "excel-tab", quoting=quoting, lineterminator="\r\n").writerow(row)
    return text.getvalue()[:-2]


def _whole_lines(file: Path) -> Iterator[str]:
    with open_text(file, newline="") as stream:
        yield from _at_least_one(file, (line.rstrip("\r\n") for line in _lines(stream)))


def _lines(stream: Iterable[str]) -> Iterator[str]:
    r"""Yield lines with their ends: "\n", or "\r" if the stream (`newline=""`) has no "\n"."""
    parts: list[str] = []
    has_newline = False
    for part in stream:
        parts.append(part)
        if part.endswith("\n"):
            has_newline = True
            yield "".join(parts)
            parts = []
    yield from ["".join(parts)] if has_newline and parts else parts


def _at_least_one(file: Path, rows: Iterator[Any]) -> Iterator[Any]:
    first = next(rows, None)
    if first is None:
        raise UserError(f"{file} has no rows")
    yield first
    yield from rows


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names)) or "none"


def write_table(rows: Any, file: str | Path, columns: Sequence[str] = ("text", "label")) -> str:
    """Write a DataFrame, a `tf.data.Dataset` or dictionaries as a table to train or predict on.

    `read_table` reads it: 1.0 becomes 1, and 0.5, true and dates become strings. Other columns are
    also written, except for values that JSON cannot represent.

    Args:
        rows: a pandas or polars DataFrame; a finite, unbatched `tf.data.Dataset` of dictionaries,
            or of tuples in the order of `columns`; or an iterable of dictionaries.
        file: the .jsonl file to write or replace.
        columns: the columns to read later, whose values must be strings or numbers. They name the
            elements of tuples in a data set.

    Returns:
        The file, for the options `data.train`, `data.validation` and `data.test`.

    Raises:
        UserError: the file has another extension or cannot be written; there are no rows; or one of
            `columns` occurs twice or has a missing value, or one that is neither text nor a number.

    ```python
    train = write_table(frame.rename(columns={"review": "text", "stars": "label"}), "mine.jsonl")
    tasks.get("classify")(
        preset="own", model="bilstm_gated", seed=0, data_dir="data", overrides={"data.train": train}
    )
    ```
    """
    file = Path(file)
    if file.suffix != ".jsonl":
        raise UserError(f"{file} has an unsupported file extension: use .jsonl")
    lines: list[str] = []
    needed: set[str] = set()
    for number, row in enumerate(_dictionaries(rows, columns), 1):
        if not isinstance(row, Mapping):
            raise UserError(f"row {number} is {row!r}: expected a dictionary of columns")
        needed = needed or set(columns) & set(map(str, row))
        written = _json_row(row, number, columns)
        if missing := sorted(needed - written.keys()):
            raise UserError(f"row {number} has no {missing[0]!r}, and row 1 has: fill it")
        lines.append(json.dumps(written))
    if not lines:
        raise UserError(f"there are no rows to write to {file}")
    if not file.parent.is_dir():
        raise FileError(f"cannot write {file}: No such file or directory")
    write(file, "\n".join([*lines, ""]))
    return str(file)


def _dictionaries(rows: Any, columns: Sequence[str]) -> Iterator[Any]:
    if isinstance(rows, tf.data.Dataset):
        for row in rows.as_numpy_iterator():
            parts = row if isinstance(row, tuple) else (row,)
            if not isinstance(row, Mapping) and len(parts) != len(columns):
                raise UserError(
                    f"the data set's rows have {len(parts)} parts, and the columns are "
                    f"{', '.join(columns)}: name one for each"
                )
            yield row if isinstance(row, Mapping) else dict(zip(columns, parts, strict=True))
    elif hasattr(rows, "columns") and hasattr(rows, "to_dict"):
        counts = collections.Counter(map(str, rows.columns))
        for name in columns:
            if counts[name] > 1:
                raise UserError(f"{counts[name]} columns are called {name!r}: rename all but one")
        # If two columns have the same name, pandas returns both.
        names = [name for name in rows.columns if counts[str(name)] == 1]
        for row in zip(*(rows[name] for name in names), strict=True):
            yield dict(zip(names, row, strict=True))
    else:
        yield from rows


def _json_row(row: Mapping[Any, Any], number: int, columns: Sequence[str]) -> dict[str, Any]:
    """Convert the values that JSON can represent; reject missing and other values in `columns`."""
    written = {}
    for name, value in row.items():
        try:
            plain = _plain(value)
        except (TypeError, ValueError):
            plain = None
        if str(name) in columns and not isinstance(plain, str | int):
            raise UserError(
                f"row {number} has no {name!r}: drop it, fill it, or leave out the column"
                if _is_missing(value)
                else f"row {number} has a value that is neither text nor a number: "
                f"{name!r} is {' '.join(repr(value).split())[:80]}"
            )
        if plain is not None:
            written[str(name)] = plain
    return written


def _plain(value: Any) -> Any:
    """Convert to a text or an integer, or to lists or dictionaries of them; None if missing."""
    if hasattr(value, "numpy"):
        value = value.numpy()
    if _is_missing(value):
        return None
    if isinstance(value, np.datetime64 | np.timedelta64):
        return str(value)  # `item` would return nanoseconds
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()  # half of a surrogate pair becomes "?"
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, float):
        return int(value) if value.is_integer() else repr(value)
    if type(value) is int:
        return value
    # Dates, decimals and category intervals have a meaningful text form; a plain object does not.
    if isinstance(value, int) or type(value).__str__ is not object.__str__:
        return str(value)
    raise TypeError


def _is_missing(value: Any) -> bool:
    """Return whether the value is None, NaN, pandas' NA or a date that is NaT."""
    if isinstance(value, float | np.floating | np.datetime64 | np.timedelta64):
        return bool(value != value)
    return value is None or type(value).__name__ in ("NAType", "NaTType")
