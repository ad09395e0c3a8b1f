"""Tables as spreadsheets, pandas and old machines write them."""

import csv
import random
from pathlib import Path

import pytest

from keras_quasiattn.data import read_parallel, read_table
from keras_quasiattn.errors import UserError

COLUMNS = ("text", "label")


def read(folder: Path, name: str, content: str) -> list[tuple[int, dict[str, str]]]:
    (folder / name).write_bytes(content.encode())
    return list(read_table(folder / name, COLUMNS))


ENDS = ["\n", "\r\n", "\r"]


@pytest.mark.parametrize("end", ENDS, ids=repr)
@pytest.mark.parametrize("name", ["a.tsv", "a.csv", "a.txt"])
@pytest.mark.parametrize("last", [True, False])
def test_carriage_returns_that_end_lines_were_a_traceback(
    name: str, end: str, last: bool, tmp_path: Path
) -> None:
    parting = "," if name.endswith("csv") else "\t"
    lines = [parting.join(fields) for fields in (("text", "label"), ("a b", "1"), ("", "2"))]
    assert read(tmp_path, name, end.join(lines) + end * last) == [
        (2, {"text": "a b", "label": "1"}),
        (3, {"text": "", "label": "2"}),
    ]


@pytest.mark.parametrize("end", ENDS, ids=repr)
def test_carriage_returns_in_other_files(end: str, tmp_path: Path) -> None:
    lines = ['{"text": "a", "label": 1}', '{"text": "b", "label": 2}']
    assert [row["text"] for _, row in read(tmp_path, "a.jsonl", end.join(lines))] == ["a", "b"]
    files = {name: tmp_path / name for name in ("first", "second")}
    for file in files.values():
        file.write_bytes(f"a{end}{end}b{end}".encode())
    assert [row["first"] for _, row in read_parallel(files)] == ["a", "", "b"]


def test_a_carriage_return_within_a_line_is_text_where_lines_end_at_newlines(
    tmp_path: Path,
) -> None:
    assert read(tmp_path, "a.tsv", "text\tlabel\na\rb\t1\n")[0][1]["text"] == "a\rb"


@pytest.mark.parametrize("name", ["a.tsv", "a.csv", "a.txt"])
def test_a_first_line_of_more_than_128_kibibytes_was_a_traceback(name: str, tmp_path: Path) -> None:
    csv.field_size_limit(131_072)  # as in a new process
    parting = "," if name.endswith("csv") else "\t"
    header, row = parting.join(["text", "label", "x" * 200_000]), parting.join(["a", "1", ""])
    assert read(tmp_path, name, f"{header}\n{row}\n") == [(2, {"text": "a", "label": "1"})]
    with pytest.raises(UserError, match=f"{name}, line 1: the columns are 'x"):
        csv.field_size_limit(131_072)
        read(tmp_path, name, "x" * 200_000)


@pytest.mark.parametrize("name", ["a.tsv", "a.csv", "a.txt"])
def test_null_characters(name: str, tmp_path: Path) -> None:
    parting = "," if name.endswith("csv") else "\t"
    content = f"text{parting}label\na\0b{parting}1\n"
    try:
        assert read(tmp_path, name, content)[0][1]["text"] == "a\0b"
    except UserError as error:  # Python 3.10's csv
        assert "line 2: line contains NUL" in str(error)
    (tmp_path / name).write_bytes(content.encode("utf-16-le"))
    with pytest.raises(UserError, match=f"{name}, line 1: .*NUL"):
        list(read_table(tmp_path / name, COLUMNS))


def test_a_quote_that_is_not_closed_names_the_line_that_opens_it(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"a.csv, line 3: .* \(up to line 5\)"):
        read(tmp_path, "a.csv", 'text,label\na,1\n"b,1\nc,1\nd,1\n')


TEXTS = ["plain", "tab\there", "line\nbreak", 'say "no"', '"', '"all"', "cr\r\nlf", "", "'"]


@pytest.mark.parametrize("everything", [True, False])
@pytest.mark.parametrize("end", ENDS[:2], ids=repr)
@pytest.mark.parametrize("texts", [TEXTS, *([text, "x"] for text in TEXTS)], ids=repr)
def test_a_tsv_reads_as_pandas_wrote_it(
    texts: list[str], end: str, everything: bool, tmp_path: Path
) -> None:
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
def test_quotes_that_no_program_wrote_are_text(texts: list[str], tmp_path: Path) -> None:
    rows = read(tmp_path, "a.tsv", "\n".join(["text\tlabel", *(f"{text}\t1" for text in texts)]))
    assert [row["text"] for _, row in rows] == texts
    assert [number for number, _ in rows] == [2 + place for place in range(len(texts))]


def test_line_numbers_and_errors_of_a_quoted_tsv(tmp_path: Path) -> None:
    begin = 'text\tlabel\n"a\n\tb"\t1\n'
    assert [number for number, _ in read(tmp_path, "a.tsv", f"{begin}c\t1\n")] == [3, 4]
    with pytest.raises(UserError, match=r"a.tsv, line 4: 1 fields, expected 2"):
        read(tmp_path, "a.tsv", f"{begin}c\n")
    with pytest.raises(UserError, match="a.tsv, line 3: a quote is not closed, or not doubled"):
        read(tmp_path, "a.tsv", '"text"\t"label"\n"a"\t"1"\n"b\t"1"\n')


WORDS = [
    "good",
    '"quoted"',
    'a"b',
    "tab\there",
    "line\nbreak",
    '""',
    '"',
    '5" disk',
    'end"',
    '"start',
]


@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL, None])
def test_a_break_within_a_quoted_field_split_a_row_that_also_has_a_tab(
    quoting: int | None, tmp_path: Path
) -> None:
    """The parts then had as many fields as rows have, and the file passed for one of no quotes."""
    draw = random.Random(0)
    plain = [word for word in WORDS if "\t" not in word and "\n" not in word]
    for _ in range(60):
        known = plain if quoting is None else WORDS
        # Doubled quotes are what tells, since the rows with a break alone may be text.
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
