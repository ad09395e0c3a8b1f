"""Bad arguments, bad questions and damaged files: a command prints one line and changes nothing."""

import io
import json
import re
import shutil
import sys
from pathlib import Path

import pytest
import tiny_mlu

Outcome = tuple[int, str, str]


def assert_one_line(outcome, message, code=1):
    assert outcome[0] == code, outcome
    assert outcome[1] == ""
    (line,) = outcome[2].splitlines()
    assert re.match(f"quasiattn: .*{message}", line), line


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ("hello", "cannot read 'hello' as an expression: expected 'x=INTEGER,y=INTEGER,OPERATION'"),
        ("x" * 10_000, r"cannot read 'x{40}'... \(10000 characters\) as an expression"),
        ("\udcff\udcfe", r"cannot read '\\udcff\\udcfe' as an expression"),
    ],
)
def test_question_that_the_model_cannot_know(question, message, run_cli, mlu_run):
    assert_one_line(run_cli("predict", str(mlu_run), tiny_mlu.QUESTION, question), message)


@pytest.mark.parametrize(
    "typed", [b"\xff\xfe\n", b"\n", b"x=1,y=2,x+y\n\n", b"x=1,y=2,x+y\r\r\n", b"z" * 10_000]
)
def test_standard_input_that_the_model_cannot_know(typed, run_cli, mlu_run, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(typed)))
    assert_one_line(run_cli("predict", str(mlu_run), "-"), "cannot read .* as an expression")


def test_no_standard_input_was_one_empty_text(run_cli, texts_run, monkeypatch):
    for command in ("predict", "show"):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
        outcome = run_cli(command, str(texts_run), "-")
        assert_one_line(outcome, "'-': standard input is empty: give one text per line")


TRAIN = ("train", "mlu", "--quiet", "--run={tmp}/new", "--data-dir={data}", *tiny_mlu.settings())


@pytest.mark.parametrize(
    ("arguments", "message", "code"),
    [
        (
            ("train", "\udcff", "--run", "{tmp}/new"),
            r"unknown task '\\udcff': choose from classify, mlu",
            1,
        ),
        (
            (*TRAIN, "--set", "model.hidden_dim"),
            "--set 'model.hidden_dim': it must be NAME=VALUE",
            1,
        ),
        ((*TRAIN, "--strategy", "both"), "unknown strategy 'both': choose from mirrored,", 1),
        ((*TRAIN, "--sed", "1"), "No such option.*--sed.*--seed", 2),
        (
            ("train", "mlu", "--run", "{tmp}/\udcff"),
            r"Invalid value for '--run': the path .*\\udcff' must be UTF-8",
            2,
        ),
        (("evaluate", "{tmp}/none"), "none does not exist: name the folder of a training run", 1),
        (("evaluate", ""), "Invalid value for 'RUN': the path is empty", 2),
        # It meant the current folder.
        (("train", "mlu", "--run", ""), "Invalid value for '--run': the path is empty", 2),
        (("evaluate", "n" * 10_000), "File name too long", 1),
        (("predict", "{run}"), "give either texts .* or --data FILE", 2),
        (("predict", "{run}", "--", "-x"), "cannot read '-x' as an expression", 1),
        (("export", "{run}", "--to", "{tmp}/saved", "--version", "0"), "the version is 0", 1),
        (("export", "{run}", "--to", "{run}/config.json"), "cannot write .*/config.json: Not", 1),
        (
            ("serve-check", "{run}"),
            "run is not a SavedModel: it has no saved_model.pb; name the folder of",
            1,
        ),
    ],
)
def test_bad_arguments_are_one_line_and_change_nothing(
    arguments, message, code, run_cli, run, mlu_data, tmp_path
):
    places = {"tmp": str(tmp_path), "run": str(run), "data": str(mlu_data)}
    before = tiny_mlu.contents(tmp_path)
    outcome = run_cli(*(argument.format(**places) for argument in arguments))
    assert_one_line(outcome, message, code)
    after = tiny_mlu.contents(tmp_path)
    # An empty folder counts as missing. With a config.json in it, the next start would have to use
    # the rejected options.
    after.pop("new", None)
    assert after == before


@pytest.mark.parametrize(
    "arguments",
    [
        ("report", "none", "--to", "{file}/page.html"),
        ("report", "none", "--to", "{folder}"),
        ("export", "none", "--to", "{file}/models"),
        ("evaluate", "none", "--record", "{folder}"),
        ("predict", "none", "--data", "none.tsv", "--errors", "{file}/mistakes.jsonl"),
        ("tune", "mlu", "--to", "{file}"),
        ("compare", "classify", "--data", "none.tsv", "--to", "{file}/comparison"),
        ("compare", "none.toml", "--runs", "{file}"),
    ],
    ids=" ".join,
)
def test_a_place_that_cannot_be_written_was_refused_after_all_the_work(
    arguments, run_cli, tmp_path
):
    file, folder = tmp_path / "file", tmp_path / "folder"
    file.write_text("mine")
    folder.mkdir()
    # Nothing else is looked at before: the run and the data do not exist.
    outcome = run_cli(*(one.format(file=file, folder=folder) for one in arguments))
    assert_one_line(outcome, f"cannot write {tmp_path}/.*: (Not|Is) a directory")
    assert file.read_text() == "mine" and not any(folder.iterdir())


def test_the_mistakes_replaced_the_data_and_a_record_was_added_to_a_table(run_cli, tmp_path):
    mine, run = tmp_path / "mine.tsv", str(tmp_path / "run")
    mine.write_text("text\tlabel\na\tb\n")
    outcome = run_cli("predict", run, "--data", str(mine), "--errors", str(mine))
    assert_one_line(outcome, "--errors '.*mine.tsv' would replace the file of --data: name another")
    outcome = run_cli("evaluate", run, "--record", str(mine))
    assert_one_line(outcome, "mine.tsv is damaged: line 1 is not a JSON object")
    assert mine.read_text() == "text\tlabel\na\tb\n"


def cut_short(file):
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])


def garbage_within(file):
    content = bytearray(file.read_bytes())
    content[len(content) // 4 : len(content) * 3 // 4] = bytes(len(content) // 2)
    file.write_bytes(content)


def set_in_config(**values):
    def change(file):
        file.write_text(json.dumps({**json.loads(file.read_text()), **values}))

    return change


DAMAGES = {
    "config cut short": ("config.json", cut_short, "config.json is damaged"),
    "newer format": ("config.json", set_in_config(format=2), "has format 2 and .* up to 1"),
    "newer task": ("config.json", set_in_config(task="later"), "unknown task 'later'"),
    "no model": ("model.keras", Path.unlink, r"is not finished \(update 20 of 20\): run the"),
    "model cut short": ("model.keras", cut_short, "model.keras is not the file that "),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_run_is_one_line_and_stays_as_it_is(damage, run_cli, run, mlu_data, tmp_path):
    name, spoil, message = DAMAGES[damage]
    spoil(run / name)
    before = tiny_mlu.contents(tmp_path)
    for command in (
        ("evaluate", str(run), "--data-dir", str(mlu_data), "--limit", "1"),
        ("predict", str(run), tiny_mlu.QUESTION),
        ("export", str(run), "--to", str(tmp_path / "saved")),
    ):
        assert_one_line(run_cli(*command), message)
        assert tiny_mlu.contents(tmp_path) == before


def test_training_in_a_folder_with_another_run(run_cli, run, mlu_data):
    before = tiny_mlu.contents(run)
    arguments = ("train", "mlu", "--run", str(run), "--data-dir", str(mlu_data), "--seed=3")
    outcome = run_cli(*arguments, *tiny_mlu.settings(model__hidden_dim=64))
    assert_one_line(
        outcome,
        "was started with model.hidden_dim 32, not 64: use the same options or a new folder",
    )
    assert tiny_mlu.contents(run) == before


def test_data_that_were_damaged(run_cli, run, mlu_data, tmp_path):
    data = shutil.copytree(mlu_data, tmp_path / "data")
    (file,) = data.rglob("*-test.tfrecord*")
    garbage_within(file)
    before = tiny_mlu.contents(tmp_path)
    assert_one_line(run_cli("evaluate", str(run), "--data-dir", str(data)), "TensorFlow stopped: ")
    assert tiny_mlu.contents(tmp_path) == before


def test_standard_input_of_windows_was_read_otherwise_than_a_file(run_cli, mlu_run, monkeypatch):
    answers = []
    for typed in (b"x=1,y=2,x+y\n", b"\xef\xbb\xbfx=1,y=2,x+y\r\n"):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(typed)))
        answers.append(run_cli("predict", str(mlu_run), "-"))
    assert answers[0][0] == 0 and answers[0] == answers[1]


def test_a_log_of_clicks_had_contradicting_messages(run_cli, tmp_path):
    (tmp_path / "a.tsv").write_text("query\tquestion\tctr\na\tb\t0.5\n")
    code, _, error = run_cli(
        *("train", "pairs", "--preset", "click_log", "--data", str(tmp_path / "a.tsv")),
        *("--run", str(tmp_path / "run")),
    )
    assert code and "has no ctr below 0.3 or above 0.7" in error
