import csv
import lzma
from pathlib import Path

import pytest

from keras_quasiattn.data import read_parallel, read_table
from keras_quasiattn.errors import UserError

COLUMNS = ("text", "label")


def read(folder: Path, name: str, content: str) -> list[tuple[int, dict[str, str]]]:
    (folder / name).write_bytes(content.encode())
    return list(read_table(folder / name, COLUMNS))


def test_tsv_parts_rows_at_newlines_alone_and_quotes_nothing(tmp_path: Path) -> None:
    rows = read(
        tmp_path, "a.tsv", 'label\tid\ttext\n1\tx\the said "no\n2\ty\tone\u0085line\n3\tz\t\r\n'
    )
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
        tmp_path,
        "a.jsonl",
        '{"text": "a\\nb", "label": 1, "x": []}\n\n{"text": "", "label": "no"}\n',
    )
    assert rows == [(1, {"text": "a\nb", "label": "1"}), (3, {"text": "", "label": "no"})]


def test_jsonl_may_hold_lists(tmp_path: Path) -> None:
    rows = read(tmp_path, "a.jsonl", '[{"text": "a", "label": 1}, {"text": "b", "label": 2}]\n')
    assert rows == [(1, {"text": "a", "label": "1"}), (1, {"text": "b", "label": "2"})]


def test_columns_that_need_not_be_there(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("id\ttext\n1\ta\n")
    assert list(read_table(tmp_path / "a.tsv", ["text"], optional=["id", "x"])) == [
        (2, {"text": "a", "id": "1"})
    ]
    (tmp_path / "a.jsonl").write_text('{"text": "a", "id": 1}\n{"text": "b"}\n')
    rows = [row for _, row in read_table(tmp_path / "a.jsonl", ["text"], optional=["id"])]
    assert rows == [{"text": "a", "id": "1"}, {"text": "b"}]


def test_quoted_tsv(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text('text\tlabel\n"a ""b""\nc\td"\t1\n')
    assert list(read_table(tmp_path / "a.tsv", COLUMNS, quoted=True)) == [
        (3, {"text": 'a "b"\nc\td', "label": "1"})
    ]


def test_parallel_files(tmp_path: Path) -> None:
    files = {name: tmp_path / name for name in ("first", "second")}
    files["first"].write_bytes("a\u0085b\r\n\nc".encode())
    files["second"].write_bytes(b"1\n2\n3\n")
    assert list(read_parallel(files)) == [
        (1, {"first": "a\u0085b", "second": "1"}),
        (2, {"first": "", "second": "2"}),
        (3, {"first": "c", "second": "3"}),
    ]
    files["second"].write_bytes(b"1\n2\n3\n4\n5\n")
    with pytest.raises(
        UserError, match="different numbers of lines: .*first has 3, .*second has 5"
    ):
        list(read_parallel(files))
    files["second"].write_bytes(b"")
    with pytest.raises(UserError, match="second has no rows"):
        list(read_parallel(files))


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
        (
            "a.tsv",
            "text\tlabel\na\tb\nc\n",
            r"a.tsv, line 3: 1 fields, expected 2 \('text', 'label'\)",
        ),
        ("a.tsv", "text\tlabel\na\tb\tc\n", "a.tsv, line 2: 3 fields"),
        ("a.csv", 'text,label\na,"b\n', "a.csv, line 2: unexpected end of data"),
        ("a.csv", "text,label\na,b\na,b,c\n", "a.csv, line 3: 3 fields"),
        ("a.jsonl", '{"text": "a", "label": "b"}\n{"text": "a"\n', "a.jsonl, line 2: not JSON"),
        ("a.jsonl", "[1]\n", "a.jsonl, line 1: expected a JSON object with 'text', 'label'"),
        (
            "a.jsonl",
            '{"text": "a"}\n',
            "a.jsonl, line 1: 'label' is null: expected a text or an integer",
        ),
        ("a.jsonl", '{"text": true, "label": 1}\n', "a.jsonl, line 1: 'text' is true"),
        ("a.jsonl", "\n", "a.jsonl has no rows"),
        ("a.odt", "a\n", "a.odt has an unsupported file extension: use .tsv, .csv, .txt, .jsonl"),
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


def test_a_byte_order_mark_was_part_of_the_first_column(tmp_path: Path) -> None:
    assert read(tmp_path, "a.tsv", "\ufefftext\tlabel\nwho\tHUM\n") == [
        (2, {"text": "who", "label": "HUM"})
    ]


def test_a_csv_field_of_more_than_128_kibibytes_was_refused(tmp_path: Path) -> None:
    ((_, row),) = read(tmp_path, "a.csv", f"text,label\n{'x' * 200_000},HUM\n")
    assert len(row["text"]) == 200_000


def test_half_a_surrogate_pair_ended_in_a_traceback(tmp_path: Path) -> None:
    line = '{"text": "\\ud800", "label": "HUM"}\n'
    with pytest.raises(
        UserError, match="a.jsonl, line 1: invalid Unicode escape: unpaired surrogate"
    ):
        read(tmp_path, "a.jsonl", line)
    ((_, row),) = read(tmp_path, "a.jsonl", line.replace("\\ud800", "\\ud83d\\ude00"))
    assert row["text"] == "\U0001f600"


SHEET = [["text", "x", "label"], ["a; b, c", "1", "d"], ['say "no"', "2", "e"]]


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be"])
@pytest.mark.parametrize("ending", [".csv", ".txt"])
def test_tables_as_spreadsheets_write_them(
    delimiter: str, encoding: str, ending: str, tmp_path: Path
) -> None:
    file = tmp_path / f"a{ending}"
    with file.open("w", encoding=encoding, newline="") as stream:
        stream.write("\ufeff" if encoding == "utf-16-be" else "")
        csv.writer(stream, delimiter=delimiter).writerows([*SHEET, ["", "", ""]])
    assert list(read_table(file, COLUMNS)) == [
        (2, {"text": "a; b, c", "label": "d"}),
        (3, {"text": 'say "no"', "label": "e"}),
    ]


def test_a_first_line_that_names_the_delimiter(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("sep=|\r\ntext|label\r\na,b|c\r\n")
    assert list(read_table(tmp_path / "a.csv", COLUMNS)) == [(3, {"text": "a,b", "label": "c"})]


def test_columns_of_other_names(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("review\tlabel\ttext\na\tb\tc\n")
    names = {"text": "review"}
    assert list(read_table(tmp_path / "a.tsv", COLUMNS, names=names)) == [
        (2, {"text": "a", "label": "b"})
    ]
    (tmp_path / "a.jsonl").write_text('{"review": "a", "label": 1}\n')
    assert list(read_table(tmp_path / "a.jsonl", COLUMNS, names=names)) == [
        (1, {"text": "a", "label": "1"})
    ]
    with pytest.raises(UserError, match="'revue', 'label' must .* such as --columns text=NAME"):
        list(read_table(tmp_path / "a.tsv", COLUMNS, names={"text": "revue"}))
    with pytest.raises(UserError, match=r"unknown column 'txt' \(did you mean 'text'\?\)"):
        list(read_table(tmp_path / "a.tsv", COLUMNS, names={"txt": "review"}))
