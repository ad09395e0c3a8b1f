import csv
import datetime
import gzip
import json
import os
import random
import sys

import openpyxl
import pyarrow.parquet
import pytest

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.cli.arguments import columns_of
from keras_quasiattn.lab.data import read_inputs, read_parallel, read_table
from keras_quasiattn.lab.text import open_text

COLUMNS = ("text", "label")


def read(folder, name, content):
    (folder / name).write_bytes(content.encode())
    return list(read_table(folder / name, COLUMNS))


def test_tsv_parts_rows_at_newlines_alone_and_quotes_nothing(tmp_path):
    rows = read(
        tmp_path, "a.tsv", 'label\tid\ttext\n1\tx\the said "no\n2\ty\tone\u0085line\n3\tz\t\r\n'
    )
    assert rows == [
        (2, {"text": 'he said "no', "label": "1"}),
        (3, {"text": "one\u0085line", "label": "2"}),
        (4, {"text": "", "label": "3"}),
    ]


def test_an_extension_in_capitals_was_unsupported(tmp_path):
    rows = [(2, {"text": "a", "label": "1"})]
    assert read(tmp_path, "A.CSV", "text,label\na,1\n") == rows
    (tmp_path / "A.TSV.GZ").write_bytes(gzip.compress(b"text\tlabel\na\t1\n"))
    assert list(read_table(tmp_path / "A.TSV.GZ", COLUMNS)) == rows


def test_csv_fields_may_be_quoted_and_hold_newlines(tmp_path):
    rows = read(tmp_path, "a.csv", 'text,label\n"a, ""b""\nc",1\r\nd,2\n')
    assert rows == [(3, {"text": 'a, "b"\nc', "label": "1"}), (4, {"text": "d", "label": "2"})]


def test_jsonl_gives_texts_and_numbers(tmp_path):
    rows = read(
        tmp_path,
        "a.jsonl",
        '{"text": "a\\nb", "label": 1, "x": []}\n\n{"text": "", "label": "no"}\n',
    )
    assert rows == [(1, {"text": "a\nb", "label": "1"}), (3, {"text": "", "label": "no"})]


def test_labels_that_csv_and_write_table_write_were_refused_in_jsonl_and_parquet(tmp_path):
    table = {"text": ["a", "b"], "label": [True, False]}
    pyarrow.parquet.write_table(pyarrow.table(table), tmp_path / "a.parquet")
    lines = '{"text": 0.5, "label": 1.0}\n{"text": 2, "label": true}\n'
    assert [row for _, row in read(tmp_path, "a.jsonl", lines)] == [
        {"text": "0.5", "label": "1"},
        {"text": "2", "label": "True"},
    ]
    assert [row for _, row in read_table(tmp_path / "a.parquet", COLUMNS)] == [
        {"text": "a", "label": "True"},
        {"text": "b", "label": "False"},
    ]


def test_jsonl_may_hold_lists(tmp_path):
    rows = read(tmp_path, "a.jsonl", '[{"text": "a", "label": 1}, {"text": "b", "label": 2}]\n')
    assert rows == [(1, {"text": "a", "label": "1"}), (1, {"text": "b", "label": "2"})]


def test_another_column_of_a_parquet_that_python_cannot_represent_was_a_traceback(tmp_path):
    far = pyarrow.array([569_000_000_000], pyarrow.timestamp("s"))  # in the year 20000
    table = pyarrow.table({"text": ["a"], "label": ["x"], "when": far})
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    assert list(read_table(tmp_path / "a.parquet", COLUMNS)) == [(1, {"text": "a", "label": "x"})]
    with pytest.raises(UserError, match="the columns are 'text', 'label', 'when': 'body' must"):
        list(read_table(tmp_path / "a.parquet", ["body"]))


def test_a_parquet_with_a_text_that_is_not_utf_8_was_to_be_saved_as_utf_8(tmp_path):
    texts = pyarrow.array([b"a", b"caf\xe9"]).view(pyarrow.string())
    pyarrow.parquet.write_table(pyarrow.table({"text": texts}), tmp_path / "a.parquet")
    with pytest.raises(UserError, match=r"a.parquet: a text is not UTF-8: unexpected end of data$"):
        list(read_table(tmp_path / "a.parquet", ["text"]))


def test_parquet(tmp_path):
    table = pyarrow.table({"text": ["a\nb", "naïve"], "x": [0.5, None], "label": [1, 2]})
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    assert list(read_table(tmp_path / "a.parquet", COLUMNS)) == [
        (1, {"text": "a\nb", "label": "1"}),
        (2, {"text": "naïve", "label": "2"}),
    ]
    with pytest.raises(UserError, match=r"a.parquet, line 2: 'x' is null: expected a text or a"):
        list(read_table(tmp_path / "a.parquet", ["text"], optional=["label"], names={"text": "x"}))
    (tmp_path / "b.parquet").write_bytes(b"text")
    with pytest.raises(UserError, match="b.parquet is not a Parquet file: "):
        list(read_table(tmp_path / "b.parquet", COLUMNS))


def test_the_first_sheet_of_a_workbook(tmp_path):
    workbook = openpyxl.Workbook()
    sheet = workbook.active
    for row in (
        ["text", "label", "x"],
        ["a\nb", 1],
        [],
        [None, True, "not used"],
        ["naïve", 0.5, None, None],
        [3.0, datetime.date(2020, 1, 2)],
    ):
        sheet.append(row)
    workbook.create_sheet("another").append(["text"])
    workbook.save(tmp_path / "A.XLSX")
    assert list(read_table(tmp_path / "A.XLSX", COLUMNS)) == [
        (2, {"text": "a\nb", "label": "1"}),
        (4, {"text": "", "label": "True"}),
        (5, {"text": "naïve", "label": "0.5"}),
        (6, {"text": "3", "label": "2020-01-02 00:00:00"}),
    ]
    with pytest.raises(UserError, match="line 1: the columns are 'text', 'label', 'x': 'body'"):
        list(read_table(tmp_path / "A.XLSX", ["body"]))
    sheet.append(["a", "b", "c", "d"])
    workbook.save(tmp_path / "A.XLSX")
    with pytest.raises(UserError, match="line 7: 4 fields, expected 3"):
        list(read_table(tmp_path / "A.XLSX", COLUMNS))
    openpyxl.Workbook().save(tmp_path / "empty.xlsx")
    with pytest.raises(UserError, match="empty.xlsx, line 1: the columns are"):
        list(read_table(tmp_path / "empty.xlsx", COLUMNS))
    whole = (tmp_path / "A.XLSX").read_bytes()
    for content in (b"text,label", whole[: len(whole) // 2]):
        (tmp_path / "b.xlsx").write_bytes(content)
        with pytest.raises(UserError, match="b.xlsx is not an Excel workbook"):
            list(read_table(tmp_path / "b.xlsx", COLUMNS))


def test_a_missing_pyarrow_was_a_traceback(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "a.parquet").write_bytes(b"text")
    with pytest.raises(
        UserError, match=r"pyarrow is not installed: pip install 'keras-quasiattn\["
    ):
        list(read_table(tmp_path / "a.parquet", COLUMNS))


def test_blanks_around_the_name_of_a_column_were_part_of_it(tmp_path):
    table = pyarrow.table({" text": ["a"], "label": ["x"]})
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    assert list(read_table(tmp_path / "a.parquet", COLUMNS)) == [(1, {"text": "a", "label": "x"})]
    for name, content in (
        ("a.tsv", "  text \tlabel\na\tx\n"),
        ("a.csv", "n; text; x; label\n1,5;a;2;x\n"),
    ):
        assert read(tmp_path, name, content) == [(2, {"text": "a", "label": "x"})]
    assert read(tmp_path, "a.jsonl", '{" text": "a", "label ": "x"}\n') == [
        (1, {"text": "a", "label": "x"})
    ]
    # A name that is exactly the one asked for comes first.
    assert read(tmp_path, "b.csv", "text, text,label\na,b,x\n") == [
        (2, {"text": "a", "label": "x"})
    ]
    names = {"text": " text"}
    assert list(read_table(tmp_path / "b.csv", ("text",), names=names)) == [(2, {"text": "b"})]


def test_control_characters_in_a_workbook_were_written_out(tmp_path):
    workbook = openpyxl.Workbook()
    for row in (["text", "label"], ["a_x000D_\nb", "_x005F_x000D_"], ["_xD83D_", "x"]):
        workbook.active.append(row)
    workbook.save(tmp_path / "a.xlsx")
    assert [row for _, row in read_table(tmp_path / "a.xlsx", COLUMNS)] == [
        {"text": "a\r\nb", "label": "_x000D_"},
        {"text": "?", "label": "x"},
    ]


def test_columns_that_need_not_be_there(tmp_path):
    (tmp_path / "a.tsv").write_text("id\ttext\n1\ta\n")
    assert list(read_table(tmp_path / "a.tsv", ["text"], optional=["id", "x"])) == [
        (2, {"text": "a", "id": "1"})
    ]
    (tmp_path / "a.jsonl").write_text('{"text": "a", "id": 1}\n{"text": "b"}\n')
    rows = [row for _, row in read_table(tmp_path / "a.jsonl", ["text"], optional=["id"])]
    assert rows == [{"text": "a", "id": "1"}, {"text": "b"}]


def test_a_column_that_is_there_twice_is_not_guessed(tmp_path):
    for name, content in (
        ("a.tsv", "text\tlabel\ttext\na\t1\tb\n"),
        ("a.csv", "text,label,text\na,1,b\n"),
    ):
        with pytest.raises(UserError, match=f"{name}, line 1: 2 columns are named 'text'"):
            read(tmp_path, name, content)
    line = '{" text": "a", "text ": "b", "label": 1}\n'  # the first one was dropped
    with pytest.raises(UserError, match="a.jsonl, line 1: 2 columns are named 'text'"):
        read(tmp_path, "a.jsonl", line)
    with pytest.raises(UserError, match=r"a.jsonl, line 1: not JSON \(an object has 'text' twice"):
        read(tmp_path, "a.jsonl", '{"text": "a", "text": "b", "label": 1}\n')
    table = pyarrow.table([["a"], ["b"], [1]], names=["text", "text", "label"])
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(UserError, match="a.parquet: 2 columns are named 'text'"):
        list(read_table(tmp_path / "a.parquet", COLUMNS))
    # Others may be.
    assert read(tmp_path, "b.csv", "text,x,x,label\na,1,2,c\n") == [
        (2, {"text": "a", "label": "c"})
    ]


def test_a_pipe_was_waited_for(tmp_path):
    os.mkfifo(tmp_path / "a.tsv")
    with pytest.raises(UserError, match="a.tsv is a pipe, .*: name a file"):
        list(read_table(tmp_path / "a.tsv", COLUMNS))


def test_two_columns_of_one_name(tmp_path):
    (tmp_path / "a.tsv").write_text("text\tlabel\na\t1\n")
    with pytest.raises(UserError, match="columns 'text' and 'label' are both 'label' in .*a.tsv"):
        list(read_table(tmp_path / "a.tsv", COLUMNS, names={"text": "label"}))
    with pytest.raises(UserError, match="--columns 'text=a,text=b': a column is named twice"):
        columns_of("text=a,text=b")


def test_quoted_tsv(tmp_path):
    (tmp_path / "a.tsv").write_text('text\tlabel\n"a ""b""\nc\td"\t1\n')
    assert list(read_table(tmp_path / "a.tsv", COLUMNS, quoted=True)) == [
        (3, {"text": 'a "b"\nc\td', "label": "1"})
    ]


def test_parallel_files(tmp_path):
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
            "a.jsonl, line 1: the columns are 'text': .* such as --columns label=NAME",
        ),
        ("a.jsonl", '{"text": "a", "label": null}\n', "a.jsonl, line 1: 'label' is null: expected"),
        ("a.jsonl", '{"text": {"a": 1}, "label": 1}\n', "a.jsonl, line 1: 'text' is {\"a\": 1}"),
        # The whole value was printed.
        (
            "a.jsonl",
            json.dumps({"text": [0.125] * 768, "label": 1}),
            r"'text' is \[0.125, [0125., ]{,60}: expected a text",
        ),
        ("a.jsonl", '{"text": "a", "label": NaN}\n', "a.jsonl, line 1: 'label' is NaN: expected"),
        ("a.jsonl", "\n", "a.jsonl has no rows"),
        ("a.odt", "a\n", "a.odt has an unsupported file extension: use .tsv, .csv, .txt, .jsonl"),
        ("a.tsv.gz", "a\n", "a.tsv.gz is damaged"),
        # They were read as CSV, and "not UTF-8".
        ("a.csv.bz2", "a\n", "a.csv.bz2 has an unsupported file extension"),
        ("a.csv.zip", "a\n", "a.csv.zip has an unsupported file extension"),
        ("a.csv.ods", "a\n", "a.csv.ods has an unsupported file extension"),
        (".gz", "a\n", "gz has an unsupported file extension"),
    ],
)
def test_error_names_file_and_line(name, content, message, tmp_path):
    with pytest.raises(UserError, match=message) as caught:
        read(tmp_path, name, content)
    assert len(str(caught.value).splitlines()) == 1


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(UserError, match="cannot read .*none.tsv: No such file"):
        list(read_table(tmp_path / "none.tsv", COLUMNS))
    (tmp_path / "a.tsv").write_bytes(b"text\tlabel\n\xff\t1\n")
    with pytest.raises(UserError, match="a.tsv is not UTF-8: invalid start byte"):
        list(read_table(tmp_path / "a.tsv", COLUMNS))


@pytest.mark.parametrize(
    ("encoding", "end", "reason"),
    [
        ("latin-1", "\n", "is not UTF-8: invalid continuation byte"),
        ("latin-1", "\r", "is not UTF-8: invalid continuation byte"),
        ("utf-16", "\r\n", "is not UTF-16: truncated data"),
    ],
)
@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl", "a.csv.gz"])
def test_a_byte_that_is_not_utf_8_was_counted_from_within_the_file(
    name, encoding, end, reason, tmp_path
):
    """Python counts it from the part of the file that was read last."""
    rows = [f'{{"text": "row {number}", "label": 1}}' for number in range(999)]
    if "jsonl" not in name:
        parting = "\t" if name.endswith("tsv") else ","
        rows = [parting.join(COLUMNS), *(f"row {number}{parting}1" for number in range(998))]
    content = end.join([*rows, f"café{end}"]).encode(encoding)
    content = content[:-1] if encoding == "utf-16" else content
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    with pytest.raises(UserError, match=f"{name} {reason} in line 1000: save it as UTF-8$"):
        list(read_table(tmp_path / name, COLUMNS))


def test_an_error_of_decoding_something_else_is_not_about_the_file(tmp_path):
    (tmp_path / "a.txt").write_text("a")
    with pytest.raises(UnicodeDecodeError), open_text(tmp_path / "a.txt"):
        b"\xff".decode()


def test_a_csv_field_of_more_than_128_kibibytes_was_refused(tmp_path):
    ((_, row),) = read(tmp_path, "a.csv", f"text,label\n{'x' * 200_000},HUM\n")
    assert len(row["text"]) == 200_000


def test_half_a_surrogate_pair_ended_in_a_traceback(tmp_path):
    line = '{"text": "\\ud800", "label": "HUM"}\n'
    with pytest.raises(
        UserError, match="a.jsonl, line 1: invalid Unicode escape: unpaired surrogate"
    ):
        read(tmp_path, "a.jsonl", line)
    ((_, row),) = read(tmp_path, "a.jsonl", line.replace("\\ud800", "\\ud83d\\ude00"))
    assert row["text"] == "\U0001f600"


SHEET = [["text", "x", "label"], ["a; b, c", "1", "d"], ['say "no"', "2", "e"]]


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be", "utf-32", "utf-32-be"]
)
@pytest.mark.parametrize("ending", [".csv", ".txt"])
def test_tables_as_spreadsheets_write_them(delimiter, encoding, ending, tmp_path):
    file = tmp_path / f"a{ending}"
    with file.open("w", encoding=encoding, newline="") as stream:
        stream.write("\ufeff" if encoding.endswith("-be") else "")
        csv.writer(stream, delimiter=delimiter).writerows([*SHEET, ["", "", ""]])
    assert list(read_table(file, COLUMNS)) == [
        (2, {"text": "a; b, c", "label": "d"}),
        (3, {"text": 'say "no"', "label": "e"}),
    ]


def test_a_first_line_that_names_the_delimiter(tmp_path):
    (tmp_path / "a.csv").write_text("sep=|\r\ntext|label\r\na,b|c\r\n")
    assert list(read_table(tmp_path / "a.csv", COLUMNS)) == [(3, {"text": "a,b", "label": "c"})]
    with pytest.raises(UserError, match="a.csv, line 2: the columns are 'text', 'label': 'body'"):
        list(read_table(tmp_path / "a.csv", ["body"]))  # it said line 1


def test_columns_of_other_names(tmp_path):
    (tmp_path / "a.tsv").write_text("review\tlabel\ttext\na\tb\tc\n")
    names = {"text": "review"}
    assert list(read_table(tmp_path / "a.tsv", COLUMNS, names=names)) == [
        (2, {"text": "a", "label": "b"})
    ]
    (tmp_path / "a.jsonl").write_text('{"review": "a", "label": 1}\n')
    assert list(read_table(tmp_path / "a.jsonl", COLUMNS, names=names)) == [
        (1, {"text": "a", "label": "1"})
    ]
    with pytest.raises(UserError, match="'revue', 'label' must .* such as --columns text=NAME$"):
        list(read_table(tmp_path / "a.tsv", COLUMNS, names={"text": "revue"}))
    with pytest.raises(UserError, match=r"unknown column 'txt' \(did you mean 'text'\?\)"):
        list(read_table(tmp_path / "a.tsv", COLUMNS, names={"txt": "review"}))


@pytest.mark.parametrize(
    ("header", "named"),
    [("text,kind", "label=NAME"), ("review,label", "text=NAME"), ("a,b", "text=NAME,label=NAME")],
)
@pytest.mark.parametrize("form", ["csv", "tsv", "jsonl"])
def test_the_hint_named_the_first_column_where_another_is_missing(header, named, form, tmp_path):
    names = header.split(",")
    rows = {"csv": f"{header}\nx,y\n", "tsv": "{}\t{}\nx\ty\n".format(*names)}
    rows["jsonl"] = json.dumps(dict.fromkeys(names, "x"))
    (tmp_path / f"a.{form}").write_text(rows[form])
    with pytest.raises(UserError, match=f"the columns are {names[0]!r}, .*--columns {named}$"):
        list(read_table(tmp_path / f"a.{form}", COLUMNS))


# As spreadsheets, pandas and old machines write them.
ENDS = ["\n", "\r\n", "\r"]


@pytest.mark.parametrize("end", ENDS, ids=repr)
@pytest.mark.parametrize("name", ["a.tsv", "a.csv", "a.txt"])
@pytest.mark.parametrize("last", [True, False])
def test_carriage_returns_that_end_lines_were_a_traceback(name, end, last, tmp_path):
    parting = "," if name.endswith("csv") else "\t"
    lines = [parting.join(fields) for fields in (("text", "label"), ("a b", "1"), ("", "2"))]
    assert read(tmp_path, name, end.join(lines) + end * last) == [
        (2, {"text": "a b", "label": "1"}),
        (3, {"text": "", "label": "2"}),
    ]


@pytest.mark.parametrize("end", ENDS, ids=repr)
def test_carriage_returns_in_other_files(end, tmp_path):
    lines = ['{"text": "a", "label": 1}', '{"text": "b", "label": 2}']
    assert [row["text"] for _, row in read(tmp_path, "a.jsonl", end.join(lines))] == ["a", "b"]
    files = {name: tmp_path / name for name in ("first", "second")}
    for file in files.values():
        file.write_bytes(f"a{end}{end}b{end}".encode())
    assert [row["first"] for _, row in read_parallel(files)] == ["a", "", "b"]


def test_a_carriage_return_within_a_line_is_text_where_lines_end_at_newlines(tmp_path):
    assert read(tmp_path, "a.tsv", "text\tlabel\na\rb\t1\n")[0][1]["text"] == "a\rb"


@pytest.mark.parametrize("name", ["a.tsv", "a.csv", "a.txt"])
def test_a_first_line_of_more_than_128_kibibytes_was_a_traceback(name, tmp_path):
    csv.field_size_limit(131_072)  # as in a new process
    parting = "," if name.endswith("csv") else "\t"
    header, row = parting.join(["text", "label", "x" * 200_000]), parting.join(["a", "1", ""])
    assert read(tmp_path, name, f"{header}\n{row}\n") == [(2, {"text": "a", "label": "1"})]
    with pytest.raises(UserError, match=f"{name}, line 1: the columns are 'x"):
        csv.field_size_limit(131_072)
        read(tmp_path, name, "x" * 200_000)


@pytest.mark.parametrize("name", ["a.tsv", "a.csv", "a.txt"])
def test_null_characters(name, tmp_path):
    parting = "," if name.endswith("csv") else "\t"
    content = f"text{parting}label\na\0b{parting}1\n"
    try:
        assert read(tmp_path, name, content)[0][1]["text"] == "a\0b"
    except UserError as error:  # Python 3.10's csv
        assert "line 2: line contains NUL" in str(error)
    (tmp_path / name).write_bytes(content.encode("utf-16-le"))
    with pytest.raises(UserError, match=f"{name}, line 1: .*NUL"):
        list(read_table(tmp_path / name, COLUMNS))


def test_a_quote_that_is_not_closed_names_the_line_that_opens_it(tmp_path):
    with pytest.raises(UserError, match=r"a.csv, line 3: .* \(up to line 5\)"):
        read(tmp_path, "a.csv", 'text,label\na,1\n"b,1\nc,1\nd,1\n')


TEXTS = ["plain", "tab\there", "line\nbreak", 'say "no"', '"', '"all"', "cr\r\nlf", "", "'"]


@pytest.mark.parametrize("everything", [True, False])
@pytest.mark.parametrize("end", ENDS[:2], ids=repr)
@pytest.mark.parametrize("texts", [TEXTS, *([text, "x"] for text in TEXTS)], ids=repr)
def test_a_tsv_reads_as_pandas_wrote_it(texts, end, everything, tmp_path):
    """It writes with Python's csv, which quotes what needs it, or all."""
    file = tmp_path / "a.tsv"
    how = csv.QUOTE_ALL if everything else csv.QUOTE_MINIMAL
    with file.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, delimiter="\t", lineterminator=end, quoting=how)
        writer.writerows([("text", "label"), *((text, "1") for text in texts)])
    assert [row["text"] for _, row in read_table(file, COLUMNS)] == texts
    with file.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, delimiter="\t", lineterminator=end, quoting=how)
        writer.writerows([("text",), *((text,) for text in texts)])
    assert [row["text"] for _, row in read_table(file, ("text",))] == texts


@pytest.mark.parametrize(
    "texts",
    [
        ['"Great movie"'],
        ['"Well, he said', 'I know."'],
        ['"a ""b"""', 'one " more'],
        ['""twice""'],
        ['"'],
        ['say "no"'],
        ['"no" he said'],
        ['""'],
        ['a"', '"b'],
    ],
    ids=repr,
)
def test_quotes_that_no_program_wrote_are_text(texts, tmp_path):
    rows = read(tmp_path, "a.tsv", "\n".join(["text\tlabel", *(f"{text}\t1" for text in texts)]))
    assert [row["text"] for _, row in rows] == texts
    assert [number for number, _ in rows] == [2 + place for place in range(len(texts))]


def test_line_numbers_and_errors_of_a_quoted_tsv(tmp_path):
    begin = 'text\tlabel\n"a\n\tb"\t1\n'
    assert [number for number, _ in read(tmp_path, "a.tsv", f"{begin}c\t1\n")] == [3, 4]
    with pytest.raises(UserError, match=r"a.tsv, line 4: 1 fields, expected 2"):
        read(tmp_path, "a.tsv", f"{begin}c\n")
    with pytest.raises(UserError, match="a.tsv, line 3: .* is a quote not closed, or not doubled"):
        read(tmp_path, "a.tsv", '"text"\t"label"\n"a"\t"1"\n"b\t"1"\n')


WORDS = [
    *("good", '"quoted"', 'a"b', "tab\there", "line\nbreak", '""', '"', '5" disk'),
    *('end"', '"start'),
]


@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL, None])
def test_a_break_within_a_quoted_field_split_a_row_that_also_has_a_tab(quoting, tmp_path):
    """The parts then had as many fields as rows have, and the file passed for one of no quotes."""
    draw = random.Random(0)
    plain = [word for word in WORDS if "\t" not in word and "\n" not in word]
    for _ in range(60):
        known = plain if quoting is None else WORDS
        # Doubled quotes decide, since rows with only a line break may be text.
        rows = [['a "b" c', "x"], ["tab\there\nbreak" if quoting is not None else "a", "y"]]
        rows += [[" ".join(draw.choices(known, k=draw.randint(1, 4))), "x"] for _ in range(4)]
        with (tmp_path / "a.tsv").open("w", newline="") as file:
            if quoting is None:
                file.write("\n".join("\t".join(row) for row in [COLUMNS, *rows]))
            else:
                made = csv.writer(file, delimiter="\t", quoting=quoting, lineterminator="\n")
                made.writerows([COLUMNS, *rows])
        got = [[row["text"], row["label"]] for _, row in read_table(tmp_path / "a.tsv", COLUMNS)]
        assert got == rows


def test_blank_lines_of_a_csv_with_one_column_were_an_error(tmp_path):
    (tmp_path / "a.csv").write_text('text\none\n\n""\n\n')
    found = list(read_table(tmp_path / "a.csv", ["text"]))
    assert found == [(2, {"text": "one"}), (4, {"text": ""})]


def test_a_label_that_is_null_was_no_missing_label(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "a", "label": null}\n{"text": "b", "label": 1}\n')
    assert read_inputs(tmp_path / "a.jsonl", ["text"]) == [("a", None), ("b", "1")]


def test_blank_lines_of_other_tables_with_one_column_were_empty_texts(tmp_path):
    (tmp_path / "a.tsv").write_text("text\none\n\ntwo\n")
    found = list(read_table(tmp_path / "a.tsv", ["text"]))
    assert found == [(2, {"text": "one"}), (4, {"text": "two"})]
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in (["text"], ["one"], [], ["two"]):
        book.active.append(row or [None])
    book.save(tmp_path / "a.xlsx")
    found = [row["text"] for _, row in read_table(tmp_path / "a.xlsx", ["text"])]
    assert found == ["one", "two"]
