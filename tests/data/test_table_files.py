import lzma
from pathlib import Path

import pytest

from keras_quasiattn.data import read_table
from keras_quasiattn.errors import UserError

COLUMNS = ("text", "label")


def read(folder: Path, name: str, content: str) -> list[tuple[int, dict[str, str]]]:
    (folder / name).write_bytes(content.encode())
    return list(read_table(folder / name, COLUMNS))


def test_tsv_parts_rows_at_newlines_alone_and_quotes_nothing(tmp_path: Path) -> None:
    rows = read(tmp_path, "a.tsv", 'label\tid\ttext\n1\tx\the said "no\n2\ty\tone\u0085line\n3\tz\t\r\n')
    assert rows == [
        (2, {"text": 'he said "no', "label": "1"}),
        (3, {"text": "one\u0085line", "label": "2"}),
        (4, {"text": "", "label": "3"}),
    ]


def test_csv_fields_may_be_quoted_and_hold_newlines(tmp_path: Path) -> None:
    rows = read(tmp_path, "a.csv", 'text,label\n"a, ""b""\nc",1\r\nd,2\n')
    assert rows == [(3, {"text": 'a, "b"\nc', "label": "1"}), (4, {"text": "d", "label": "2"})]


def test_jsonl_gives_texts_and_numbers(tmp_path: Path) -> None:
    rows = read(
        tmp_path, "a.jsonl", '{"text": "a\\nb", "label": 1, "x": []}\n\n{"text": "", "label": "no"}\n'
    )
    assert rows == [(1, {"text": "a\nb", "label": "1"}), (3, {"text": "", "label": "no"})]


def test_compressed(tmp_path: Path) -> None:
    (tmp_path / "a.tsv.xz").write_bytes(lzma.compress(b"text\tlabel\na\tb\n"))
    assert list(read_table(tmp_path / "a.tsv.xz", COLUMNS)) == [(2, {"text": "a", "label": "b"})]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "a.tsv",
            "text\tclass\na\tb\n",
            "a.tsv, line 1: the columns are 'text', 'class': 'text', 'label' must be",
        ),
        ("a.tsv", "", "a.tsv, line 1: the columns are none"),
        ("a.tsv", "text\tlabel\n", "a.tsv has no rows"),
        ("a.tsv", "text\tlabel\na\tb\nc\n", r"a.tsv, line 3: 1 fields: 2 would be right \('text', 'label'\)"),
        ("a.tsv", "text\tlabel\na\tb\tc\n", "a.tsv, line 2: 3 fields"),
        ("a.csv", 'text,label\na,"b\n', "a.csv, line 2: unexpected end of data"),
        ("a.csv", "text,label\na,b\na,b,c\n", "a.csv, line 3: 3 fields"),
        ("a.jsonl", '{"text": "a", "label": "b"}\n{"text": "a"\n', "a.jsonl, line 2: not JSON"),
        ("a.jsonl", "[]\n", "a.jsonl, line 1: a JSON object with 'text', 'label' would be right"),
        ("a.jsonl", '{"text": "a"}\n', "a.jsonl, line 1: 'label' is null: a text would be right"),
        ("a.jsonl", '{"text": true, "label": 1}\n', "a.jsonl, line 1: 'text' is true"),
        ("a.jsonl", "\n", "a.jsonl has no rows"),
        ("a.txt", "a\n", "a.txt has a form that cannot be read: use .tsv, .csv, .jsonl"),
        ("a.tsv.gz", "a\n", "a.tsv.gz is damaged"),
    ],
)
def test_error_names_file_and_line(name: str, content: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=message) as caught:
        read(tmp_path, name, content)
    assert len(str(caught.value).splitlines()) == 1


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot read .*none.tsv: No such file"):
        list(read_table(tmp_path / "none.tsv", COLUMNS))
    (tmp_path / "a.tsv").write_bytes(b"text\tlabel\n\xff\t1\n")
    with pytest.raises(UserError, match="a.tsv is not UTF-8: invalid start byte"):
        list(read_table(tmp_path / "a.tsv", COLUMNS))
