"""Write Python objects to a table that a run can use as its data."""

import collections
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from keras_quasiattn.errors import FileError, UserError
from keras_quasiattn.files import write


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
