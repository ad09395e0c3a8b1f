"""Searches from the command line: killed ones, and several processes."""

import json
import signal
import socket
import subprocess
import time

import pytest
import tiny_mlu
import tiny_texts

TRIALS = 4
SECONDS = 300


def command(folder, search):
    settings = tiny_texts.overrides(folder, "bilstm_none", training__select="accuracy")
    words = f"tune classify --preset=own --model=bilstm_none --seed=3 --trials={TRIALS}".split()
    places = (f"--to={search}", f"--data-dir={folder / 'data'}", "--try=model.units=4,6,8,10,12,14")
    return [*words, *places, *tiny_mlu.arguments(settings)]


def start(arguments, **cluster):
    return subprocess.Popen(
        [*tiny_mlu.COMMAND, *arguments],
        env={**tiny_mlu.environment(), **cluster},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def last_line(process):
    output, errors = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, errors
    return output.splitlines()[-1]


def trials(search):
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


def wait_for(process, search, trial, seconds):
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
