"""Searches from the command line: killed ones, and several processes."""

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import tiny_mlu
import tiny_texts

TRIALS = 4
SECONDS = 300


def command(folder: Path, search: Path) -> list[str]:
    settings = tiny_texts.overrides(folder, "bilstm_none", training__select="accuracy")
    return [
        *(
            "tune",
            "classify",
            "--preset=own",
            "--model=bilstm_none",
            "--seed=3",
            f"--trials={TRIALS}",
        ),
        *(f"--to={search}", f"--data-dir={folder / 'data'}", "--try=model.units=4,6,8,10,12,14"),
        *(f"--set={option}={value}" for option, value in settings.items()),
    ]


def start(arguments: Sequence[str], **cluster: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", "import sys, quasiattn; sys.exit(quasiattn.main())", *arguments],
        env={**tiny_mlu.environment(), **cluster},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def last_line(process: subprocess.Popen[str]) -> str:
    output, errors = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, errors
    return output.splitlines()[-1]


def trials(search: Path) -> dict[str, tuple[dict[str, Any], float, list[dict[str, Any]]]]:
    """Return every trial's values, score, and history without the seconds."""
    found = {}
    for file in sorted(search.glob("trial_*/trial.json")):
        trial = json.loads(file.read_text())
        lines = (file.parent / "run/history.jsonl").read_text().splitlines()
        rows = [{**json.loads(line), "seconds": 0} for line in lines]
        found[file.parent.name] = (trial["hyperparameters"]["values"], trial["score"], rows)
    return found


@pytest.fixture(scope="module")
def whole(texts):
    """Run a search without interruption."""
    search = texts / "whole"
    assert json.loads(last_line(start(command(texts, search))))["run"] == str(search / "best")
    return search


def wait_for(process: subprocess.Popen[str], search: Path, trial: str, seconds: float) -> None:
    """Wait until this trial has begun, and `seconds` longer."""
    begun = time.monotonic()
    while not (search / trial / "run").exists():
        assert time.monotonic() < begun + SECONDS and process.poll() is None
        time.sleep(0.02)
    time.sleep(seconds)


@pytest.mark.complete
def test_a_chief_and_two_tuners_share_a_search_whose_chief_is_killed(texts, whole):
    search = texts / "shared"
    with socket.create_server(("127.0.0.1", 0)) as one:
        port = str(one.getsockname()[1])
    cluster = {"KERASTUNER_ORACLE_IP": "127.0.0.1", "KERASTUNER_ORACLE_PORT": port}
    chief = start(command(texts, search), KERASTUNER_TUNER_ID="chief", **cluster)
    tuners = [
        start(command(texts, search), KERASTUNER_TUNER_ID=f"tuner{i}", **cluster) for i in range(2)
    ]
    wait_for(tuners[0], search, "trial_1", 1.0)
    chief.send_signal(signal.SIGKILL)
    chief.communicate()
    chief = start(command(texts, search), KERASTUNER_TUNER_ID="chief", **cluster)
    for tuner in tuners:
        assert last_line(tuner).startswith("trial ")
    assert json.loads(last_line(chief))["run"] == str(search / "best")
    assert trials(search) == trials(whole)
