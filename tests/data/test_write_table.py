import datetime
import decimal
import enum
import json
import re
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.data import read_inputs, read_table, texts_from_files, write_table

ROWS = [("so good", "1"), ("naïve\nand bad", "0")]


def named(value):
    """The id of a test: without an address, which differs between the processes that collect it."""
    return re.sub(" at 0x[0-9a-f]+", "", repr(value))


class Frame:
    """What `write_table` uses of a pandas or polars DataFrame."""

    columns = ("text", "label")

    def to_dict(self): ...

    def __getitem__(self, name):
        return [text for text, _ in ROWS] if name == "text" else np.array([1, 0], np.int64)


def dataset(named):
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
def test_a_table_is_what_training_reads(make, tmp_path):
    file = write_table(make(), tmp_path / "mine.jsonl")
    rows = [(row["text"], row["label"]) for _, row in read_table(file, ("text", "label"))]
    assert rows == ROWS
    assert texts_from_files({"train": file}).classes == ("0", "1")
    assert read_inputs(file, ("text",)) == [("so good", "1"), ("naïve and bad", "0")]


@pytest.mark.parametrize(
    ("rows", "name", "message"),
    [
        ([], "a.jsonl", "there are no rows"),
        ([{"text": object()}], "a.jsonl", "row 1 has a value that is neither text nor a number"),
        (["text"], "a.jsonl", "row 1 is 'text': expected a dictionary"),
        ([{"text": "a", "label": 1}, {"text": "b"}], "a.jsonl", "row 2 has no 'label', and row 1"),
        ([{"text": "a"}], "a.csv", "unsupported file extension: use .jsonl"),
        ([{"text": "a"}], "none/a.jsonl", "cannot write .*: No such file"),
        (tf.data.Dataset.range(2).batch(2).map(lambda x: {"text": x}), "a.jsonl", "row 1 has"),
    ],
)
def test_what_is_no_table_leaves_the_file_alone(rows, name, message, tmp_path):
    (tmp_path / "a.jsonl").write_text("old")
    with pytest.raises(UserError, match=message):
        write_table(rows, tmp_path / name)
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("a.jsonl", "old")]


class Interval:
    """Like pandas' intervals, the categories that `cut` returns."""

    def __str__(self):
        return "(0, 10]"


class Stars(enum.Enum):
    ONE = 1


NAType, NaTType = (type(name, (), {}) for name in ("NAType", "NaTType"))
DAY = datetime.date(2020, 1, 2)


# A file with these values was rejected when it was read.
@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1"),
        (np.float32(2), "2"),
        (np.float64(0.1), "0.1"),
        (0.25, "0.25"),
        (float("inf"), "inf"),
        (True, "True"),
        (np.bool_(False), "False"),
        (np.int8(3), "3"),
        (np.array(4), "4"),
        (np.str_("a"), "a"),
        (b"a\xff", "a\ufffd"),
        ("half \ud800", "half ?"),
        (DAY, "2020-01-02"),
        (datetime.datetime(2020, 1, 2, 3), "2020-01-02 03:00:00"),
        (datetime.timedelta(1), "1 day, 0:00:00"),
        (np.datetime64("2020-01-02"), "2020-01-02"),
        (decimal.Decimal("1.50"), "1.50"),
        (Interval(), "(0, 10]"),
        (Stars.ONE, "Stars.ONE"),
        (tf.constant("a"), "a"),
        (tf.constant(1.0), "1"),
        ("NaT", "NaT"),
        ("nan", "nan"),
        (10**30, f"1{'0' * 30}"),
    ],
    ids=named,
)
def test_what_was_written_is_read_back(value, text, tmp_path):
    file = write_table([{"text": value, "label": value, "x": value}], tmp_path / "mine.jsonl")
    ((_, row),) = read_table(file, ("text", "label"), optional=("x",))
    assert row == {"text": text, "label": text, "x": text}


MISSING = [None, float("nan"), np.float32("nan"), np.datetime64("NaT"), NAType(), NaTType()]
STRANGE = [object(), {1, 2}, np.zeros(2), [1], {"a": 1}, b"".join]


@pytest.mark.parametrize(
    "value", [*MISSING, *STRANGE], ids=lambda one: re.sub(" at 0x[0-9a-f]+", "", repr(one))
)
def test_a_column_that_nobody_reads_refused_the_frame(value, tmp_path):
    file = write_table([{"text": "a", "label": 1, "x": value}] * 2, tmp_path / "mine.jsonl")
    rows = list(read_table(file, ("text", "label")))
    assert [row for _, row in rows] == [{"text": "a", "label": "1"}] * 2
    kept = json.loads(Path(file).read_text().splitlines()[0]).get("x")
    assert kept == (value if isinstance(value, list | dict) else None)
    message = (
        r"row 1 has no 'text': drop it, fill it, or leave out the column"
        if any(value is one for one in MISSING)
        else "row 1 has a value that is neither text nor a number: 'text' is "
    )
    for columns in (("text",), ("text", "label")):
        with pytest.raises(UserError, match=message) as caught:
            write_table([{"text": value, "label": 1}], tmp_path / "other.jsonl", columns)
        assert "\n" not in str(caught.value)
    assert not (tmp_path / "other.jsonl").exists()


class Wide:
    """Like a pandas DataFrame, which returns a frame for two columns of one name."""

    def __init__(self, **columns):
        self._parts = columns
        self.columns = [name for name, parts in columns.items() for _ in parts]

    def to_dict(self): ...

    def __getitem__(self, name):
        parts = self._parts[name]
        return parts[0] if len(parts) == 1 else Wide(**{name: parts})

    def __iter__(self):
        return iter(self.columns)


def test_two_columns_of_one_name_gave_the_name_for_texts(tmp_path):
    frame = Wide(text=[["a", "b"], ["c", "d"]], label=[[0, 1]])
    with pytest.raises(UserError, match="2 columns are called 'text': rename all but one"):
        write_table(frame, tmp_path / "mine.jsonl")
    frame = Wide(text=[["a", "b"]], label=[[0, 1]], x=[[1, 2], [3, 4]])
    file = write_table(frame, tmp_path / "mine.jsonl")
    assert [json.loads(line) for line in Path(file).read_text().splitlines()] == [
        {"text": "a", "label": 0},
        {"text": "b", "label": 1},
    ]


@pytest.mark.parametrize("data", [tf.data.Dataset.range(2), dataset(named=False)])
def test_parts_without_a_name_were_a_traceback(data, tmp_path):
    with pytest.raises(UserError, match="the data set's rows have [12] parts, and the columns are"):
        write_table(data, tmp_path / "mine.jsonl", ("a", "b", "c"))
