from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from keras_quasiattn.data import read_inputs, read_table, texts_from_files, write_table
from keras_quasiattn.errors import UserError

ROWS = [("so good", "1"), ("naïve\nand bad", "0")]


class Frame:
    """What `write_table` uses of a pandas or polars DataFrame."""

    columns = ("text", "label")

    def to_dict(self) -> None: ...

    def __getitem__(self, name: str) -> Any:
        return [text for text, _ in ROWS] if name == "text" else np.array([1, 0], np.int64)


def dataset(named: bool) -> Any:
    texts, labels = [text for text, _ in ROWS], [1, 0]
    parts = {"text": texts, "label": labels} if named else (texts, labels)
    return tf.data.Dataset.from_tensor_slices(parts)


@pytest.mark.parametrize(
    "make",
    [
        Frame,
        lambda: dataset(named=True),
        lambda: dataset(named=False),
        lambda: [{"text": text, "label": int(label)} for text, label in ROWS],
    ],
)
def test_a_table_is_what_training_reads(make: Any, tmp_path: Path) -> None:
    file = write_table(make(), tmp_path / "mine.jsonl")
    rows = [(row["text"], row["label"]) for _, row in read_table(file, ("text", "label"))]
    assert rows == ROWS
    assert texts_from_files({"train": file}).classes == ("0", "1")
    assert read_inputs(file, ("text",)) == [("so good", "1"), ("naïve and bad", "0")]


@pytest.mark.parametrize(
    ("rows", "name", "message"),
    [
        ([], "a.jsonl", "there are no rows"),
        ([{"text": object()}], "a.jsonl", "row 1 has a value that is no text and no number"),
        (["text"], "a.jsonl", "row 1 is 'text': expected a dictionary"),
        ([{"text": "a"}], "a.csv", "unsupported file extension: use .jsonl"),
        ([{"text": "a"}], "none/a.jsonl", "cannot write .*: No such file"),
        (tf.data.Dataset.range(2).batch(2).map(lambda x: {"text": x}), "a.jsonl", "row 1 has"),
    ],
)
def test_what_is_no_table_leaves_the_file_alone(
    rows: Any, name: str, message: str, tmp_path: Path
) -> None:
    (tmp_path / "a.jsonl").write_text("old")
    with pytest.raises(UserError, match=message):
        write_table(rows, tmp_path / name)
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("a.jsonl", "old")]
