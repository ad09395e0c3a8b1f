"""Writes a table of the user's own from Python objects, so that a run can name it."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

from keras_quasiattn.errors import FileError, UserError
from keras_quasiattn.files import atomic_file


def write_table(rows: Any, file: str | Path, columns: Sequence[str] = ("text", "label")) -> str:
    """Writes a DataFrame, a `tf.data.Dataset` or dictionaries as a table to train or predict on.

    A run is a folder that another process continues and measures, so its data have to be a file.
    Other columns stay, but nothing reads them.

    Args:
        rows: a pandas or polars DataFrame; a finite, unbatched `tf.data.Dataset` of dictionaries,
            or of tuples in the order of `columns`; or an iterable of dictionaries.
        file: the .jsonl file to write; it is replaced as a whole.
        columns: names for the parts of a data set's tuples.

    Returns:
        The file, for the options `data.train`, `data.validation` and `data.test`.

    Raises:
        UserError: the file's name has another ending, it cannot be written, there are no rows, or
            a value is neither a text nor a number.

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
    lines = [_line(row, number) for number, row in enumerate(_dictionaries(rows, columns), 1)]
    if not lines:
        raise UserError(f"there are no rows to write to {file}")
    if not file.parent.is_dir():
        raise FileError(f"cannot write {file}: No such file or directory")
    with atomic_file(file) as temporary:
        temporary.write_text("\n".join([*lines, ""]), encoding="utf-8")
    return str(file)


def _dictionaries(rows: Any, columns: Sequence[str]) -> Iterator[Mapping[Any, Any]]:
    if isinstance(rows, tf.data.Dataset):
        for row in rows.as_numpy_iterator():
            yield row if isinstance(row, Mapping) else dict(zip(columns, row, strict=True))
    elif hasattr(rows, "columns") and hasattr(rows, "to_dict"):
        names = list(rows.columns)
        yield from (
            dict(zip(names, row, strict=True))
            for row in zip(*(rows[name] for name in names), strict=True)
        )
    else:
        yield from _of(rows)


def _of(rows: Iterable[Mapping[Any, Any]]) -> Iterator[Mapping[Any, Any]]:
    for number, row in enumerate(rows, 1):
        if not isinstance(row, Mapping):
            raise UserError(f"row {number} is {row!r}: expected a dictionary of columns")
        yield row


def _line(row: Mapping[Any, Any], number: int) -> str:
    plain = {
        str(name): value.decode("utf-8", "replace") if isinstance(value, bytes) else value
        for name, value in row.items()
    }
    try:
        return json.dumps(plain, default=lambda value: value.item())
    except (AttributeError, TypeError, ValueError):
        raise UserError(f"row {number} has a value that is no text and no number: {row}") from None
