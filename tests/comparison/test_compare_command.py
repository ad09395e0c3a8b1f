"""`quasiattn compare`: from a task to a verdict, killed, continued and extended; wrong input."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from keras_quasiattn.lab.training import RunFolder

ROOT = Path(__file__).resolve().parents[2]
SMALL = [
    *("compare", "classify", "--preset", "letters", "--limit", "100", "--rates", "0.003"),
    *("--set", "training.steps=20", "--set", "training.checkpoint_every=10"),
    *("--set", "training.warmup_steps=0"),
]


def records(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "comparison.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


def compare(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "quasiattn", *SMALL, *arguments],
        cwd=ROOT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


@pytest.mark.long
def test_a_killed_comparison_goes_on_and_grows(tmp_path):
    folder = tmp_path / "letters"
    wanted = ["--attention", "sigmoid", "--seeds", "2", "--to", str(folder)]
    first = compare(*wanted)
    deadline = time.monotonic() + 240
    while not size(folder / "comparison.jsonl") and time.monotonic() < deadline:
        time.sleep(0.1)
    os.kill(first.pid, signal.SIGKILL)
    first.communicate()
    begun = records(folder)
    assert 1 <= len(begun) < 4

    # A folder in the way of one run: that run fails, and no other.
    blocked = folder / "runs" / "sigmoid-0.003-seed1"
    if not blocked.exists():
        blocked.mkdir()
        (blocked / "mine.txt").write_text("not a run")
    second = compare(*wanted)
    said, _ = second.communicate(timeout=300)
    assert second.returncode == 0, said
    assert records(folder)[: len(begun)] == begun  # nothing is measured twice
    if (blocked / "mine.txt").exists():
        assert "1 failed: " in said and "holds other files" in said
        (blocked / "mine.txt").unlink()

    third = compare(*wanted[:2], "relu", *wanted[2:])
    said, _ = third.communicate(timeout=300)
    assert third.returncode == 0, said
    assert "bag of words" in said and "majority" in said and " failed: " not in said
    found = {(one["options"]["model.attention"], one["seed"]) for one in records(folder)}
    assert found == {(name, seed) for name in ("softmax", "sigmoid", "relu") for seed in (0, 1)}
    assert len(records(folder)) == len(found)
    row = records(folder)[0]
    assert row["validation"][0]["step"] == 10 and "accuracy" in row["validation"][0]
    assert (
        set(row) >= {"commit", "processor", "assets", "command"}
        and "vocabulary.txt" in row["assets"]
    )
    assert RunFolder.open(folder / "best", finished=True).config["task"] == "classify"
    table = (folder / "comparison.md").read_text()
    assert "| softmax |" in table and "| relu |" in table and "95% interval" in table
    page = (folder / "comparison.html").read_text()
    assert page.count("image/svg+xml") >= 4 and '"title": "relu"' in page
    assert not (folder / "compared.json").read_text().startswith("[")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--attention", "softmaxx"], "unknown attention 'softmaxx' (did you mean 'softmax'?)"),
        (["--model", "bilstm_gated"], "compare one of transformer"),
        (["--seeds", "0"], "the number of seeds is 0: it must be at least 1"),
        (["--rates", "-1"], "--rates -1.0: a learning rate must be a number above 0"),
    ],
)
def test_wrong_arguments_are_one_line_and_leave_nothing(run_cli, tmp_path, arguments, message):
    folder = tmp_path / "new"
    words = ["compare", "classify", "--preset", "letters", "--to", str(folder), *arguments]
    code, _, err = run_cli(*words)
    assert code == 1 and message in err and err.count("\n") == 1 and not folder.exists()


def test_a_folder_with_something_else_is_left_alone(run_cli, tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    words = ["compare", "classify", "--preset", "letters", "--to", str(tmp_path)]
    code, _, err = run_cli(*words)
    assert code == 1 and "holds other files but no comparison" in err
    assert [one.name for one in tmp_path.iterdir()] == ["mine.txt"]


def test_a_folder_of_another_comparison_names_what_differs(run_cli, tmp_path):
    from keras_quasiattn.lab.comparison.of_task import _begin
    from keras_quasiattn.lab.tasks import get

    def task(steps: int) -> Any:
        made = get("classify")(
            **{"preset": "letters", "model": "transformer", "seed": 0, "data_dir": tmp_path},
            overrides={"training.steps": steps, "training.warmup_steps": 0},
        )
        made.prepare()
        return made

    _begin(tmp_path / "one", task(20), "test")
    words = ["compare", "classify", "--preset", "letters", "--to", str(tmp_path / "one")]
    code, _, err = run_cli(*words, "--set", "training.steps=30", "--set", "training.warmup_steps=0")
    assert code == 1 and "another training.steps" in err


def test_the_values_of_an_option_need_not_repeat_it():
    from keras_quasiattn.lab.cli.commands import _repeated

    words = ["classify", "--attention", "coda", "relu", "--seeds", "2", "--rates", "0.1", "0.2"]
    assert list(_repeated(words)) == [
        *("classify", "--attention", "coda", "--attention", "relu", "--seeds", "2"),
        *("--rates", "0.1", "--rates", "0.2"),
    ]


@pytest.mark.long
def test_the_runs_of_a_file_are_trained_and_shown(tmp_path):
    (tmp_path / "tiny.toml").write_text(
        """
[[table]]
name = "tiny"
task = "classify"
presets = ["letters"]
records = "tiny.jsonl"
figures = { accuracy = "accuracy" }
seeds = 2
limit = 50
model = "transformer"
against = "softmax"
attentions = ["softmax", "relu"]
set = { "training.steps" = 10, "training.checkpoint_every" = 10, "training.warmup_steps" = 0 }
grid = { "training.learning_rate" = [0.003, 0.01] }
"""
    )
    words = [sys.executable, "-m", "quasiattn", "compare", str(tmp_path / "tiny.toml")]
    words += ["--runs", str(tmp_path / "runs")]
    ended = subprocess.run(words, cwd=ROOT, text=True, capture_output=True, timeout=300)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "6 runs to train" in ended.stdout and "no difference shown" in ended.stdout
    rows = [json.loads(line) for line in (tmp_path / "tiny.jsonl").read_text().splitlines()]
    assert len([row for row in rows if row["split"] == "validation"]) == 4
    assert len([row for row in rows if row["split"] == "test"]) == 4
    shown = subprocess.run([*words, "--show"], cwd=ROOT, text=True, capture_output=True)
    assert shown.returncode == 0 and "chosen" in shown.stdout and "train" not in shown.stdout
