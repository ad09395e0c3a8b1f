import json
import os
import subprocess

import pytest
import toy_task

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.training import RunFolder, append_result, result_row, train
from keras_quasiattn.lab.training.trainer import source_commit


@pytest.mark.usefixtures("eagerly")
def test_row_says_how_to_measure_again(tmp_path):
    task = toy_task.make(tmp_path, training__steps=8, training__average_checkpoints=2)
    folder = train(task, tmp_path / "run", progress=False, command=["quasiattn", "train", "toy"])
    row = result_row(folder, "test", {"accuracy": 0.5})
    assert row["accuracy"] == 0.5 and row["split"] == "test"
    assert row["steps"] == 8 and row["seed"] == task.seed and row["model"] == task.model
    assert row["parameters"] == task.build_model().count_params()
    assert row["command"] == "quasiattn train toy" and row["assets"] == {}
    assert row["options"] == task.options.options()
    file = tmp_path / "results.jsonl"
    append_result(file, row)
    append_result(file, {**row, "seed": 8})
    assert [json.loads(line)["seed"] for line in file.read_text().splitlines()] == [task.seed, 8]


def test_a_run_without_its_history_ended_in_a_traceback(tmp_path):
    task = toy_task.make(tmp_path)
    folder = RunFolder.create(tmp_path / "run", task, options={"policy": "float32"})
    for rows in ([], [{"step": 4}]):
        folder.write_history(rows)
        with pytest.raises(UserError, match="history.jsonl is missing or damaged: expected a row"):
            result_row(folder, "test", {})


def test_rows_had_no_commit(tmp_path, monkeypatch):
    """The package's source was looked for in the folder `lab`."""
    package = tmp_path / "keras_quasiattn"
    package.mkdir()
    monkeypatch.setattr("keras_quasiattn.__file__", str(package / "__init__.py"))
    assert source_commit() is None
    (package / "_version.py").write_text("")
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b.c"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*git, *words], check=True)
    commit = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True).stdout
    assert source_commit() == commit.strip()
    (package / "_version.py").write_text("changed")
    assert source_commit() == commit.strip() + "+"


def test_rows_of_eight_processes_were_lost(tmp_path):
    file, children = tmp_path / "results.jsonl", []
    for process in range(8):
        child = os.fork()
        if not child:
            code = 1
            try:
                for number in range(25):
                    append_result(file, {"process": process, "number": number})
                code = 0
            finally:
                os._exit(code)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 8
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert sorted((row["process"], row["number"]) for row in rows) == [
        (process, number) for process in range(8) for number in range(25)
    ]
    assert [entry.name for entry in tmp_path.iterdir()] == ["results.jsonl"]


def test_results_file_that_cannot_be_written_keeps_its_rows(tmp_path):
    (tmp_path / "file").write_text("rows")
    with pytest.raises(UserError, match="cannot write"):
        append_result(tmp_path / "file" / "results.jsonl", {})
    assert (tmp_path / "file").read_text() == "rows"


def test_a_row_was_joined_to_a_line_without_an_end(tmp_path):
    file = tmp_path / "results.jsonl"
    file.write_text('{"seed": 1}')
    append_result(file, {"seed": 2})
    assert [json.loads(line)["seed"] for line in file.read_text().splitlines()] == [1, 2]


def test_a_results_file_that_is_not_utf_8_is_named_and_kept(tmp_path):
    file = tmp_path / "results.jsonl"
    file.write_bytes(b'{"note": "\xe9"}\n')
    with pytest.raises(UserError, match="results.jsonl is not UTF-8 at byte 10: repair or move it"):
        append_result(file, {})
    assert file.read_bytes() == b'{"note": "\xe9"}\n'
