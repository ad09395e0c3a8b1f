"""The examples that write data files: retrieved paragraphs, and a public set as a table."""

import importlib
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

from keras_quasiattn.lab.data import LabelledTexts, questions_from_files, reading_texts
from keras_quasiattn.lab.data.questions import Question

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def call(monkeypatch):
    def run(script, *arguments):
        path = ROOT / "examples" / script
        monkeypatch.syspath_prepend(path.parent)
        monkeypatch.setattr(sys, "argv", [str(path), *arguments])
        runpy.run_path(str(path), run_name="__main__")

    return run


def test_a_question_has_the_paragraphs_most_like_it(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(ROOT / "examples")
    retrieved = importlib.import_module("retrieved_paragraphs")
    paragraphs = [f"Nothing but number {word}." for word in ("one", "two", "three", "four")]
    paragraphs += ["The river Seine is 777 km long.", "The tower beside the river is 330 m high."]
    asked = [
        Question("1", "How high is the tower beside the river?", "", ["300 m", "330 m"], [-1, -1]),
        Question("2", "Which number is four?", "", ["the last"], [-1]),
    ]
    file = tmp_path / "train.jsonl"
    assert retrieved.write(file, reading_texts(asked), paragraphs) == 0.5
    assert list(tmp_path.iterdir()) == [file]
    read = questions_from_files({"train": file})
    assert read.dropped == {"train": 1}
    (passages,) = read.splits["train"].passages
    found = passages.decode().split("\n")
    assert len(found) == retrieved.PARAGRAPHS
    assert found[:2] == paragraphs[:-3:-1]
    assert passages[read.splits["train"].starts[0] : read.splits["train"].ends[0]] == b"330 m"


def test_paragraphs_that_cannot_be_found_are_an_error_of_one_line(
    call, monkeypatch, tmp_path, capsys
):
    monkeypatch.setenv("QUASIATTN_DATA_DIR", str(tmp_path / "data"))
    for code, error in ((1, "squad11/train.jsonl is not in"), (2, "has a file of test; name")):
        with pytest.raises(SystemExit) as stopped:
            call("retrieved_paragraphs.py", "--folder", str(tmp_path))
        assert stopped.value.code == code
        assert error in capsys.readouterr().err.splitlines()[-1]
        (tmp_path / "test.jsonl").touch()


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        ("trecc", 1, "unknown preset 'trecc' (did you mean 'trec'?)"),
        ("trec", 1, "own_tables.py: "),
        ("own", 1, "data.train is ''"),
        ("trec --rows 0", 2, "--rows is 0: it must be at least 1"),
        ("letters --rows 9999999", 2, "--rows is 9999999: there are "),
    ],
)
def test_a_table_that_cannot_be_made_was_a_traceback_or_another_table(
    words, code, error, call, monkeypatch, tmp_path, capsys
):
    monkeypatch.setenv("QUASIATTN_DATA_DIR", str(tmp_path / "data"))
    preset, *rows = words.split()
    with pytest.raises(SystemExit) as stopped:
        call("own_tables.py", "classify", preset, str(tmp_path / "own"), *rows)
    assert stopped.value.code == code
    assert error in capsys.readouterr().err.splitlines()[-1]


def test_a_text_is_one_row_of_the_table(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "examples")
    own = importlib.import_module("own_tables")
    texts = LabelledTexts(np.array([b"one\ttwo", b"three\nfour "], object), np.array([1, 0]))
    rows = list(own.rows_of("classify", texts, ["no", "yes"]))
    assert rows == [("one two", "yes"), ("three four", "no")]
