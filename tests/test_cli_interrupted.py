"""The command line on a full disk, in folders it may not write, and stopped in the middle."""

import ctypes
import json
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_mlu

from keras_quasiattn.training import RunFolder

Outcome = tuple[int, str, str]
SEVERAL = """
import json, sys
from keras_quasiattn import cli
for arguments in json.loads(sys.argv[1]):
    try:
        cli.main(arguments)
    except SystemExit as ended:
        print(ended.code)
"""


def errors_of_several(commands: list[list[str]], preexec_fn: Callable[[], None]) -> list[str]:
    """Our lines on standard error from commands that all have to fail, in one fresh process."""
    ended = subprocess.run(
        [sys.executable, "-c", SEVERAL, json.dumps(commands)],
        capture_output=True,
        text=True,
        timeout=240,
        env=tiny_mlu.environment(),
        preexec_fn=preexec_fn,
    )
    assert ended.stdout.splitlines() == ["1"] * len(commands), ended.stderr
    assert "Traceback" not in ended.stderr
    return [line for line in ended.stderr.splitlines() if line.startswith("quasiattn: ")]


def limited(size: int) -> Callable[[], None]:
    """A limit on the size of files stands for a full disk."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def test_full_disk(run: Path, tmp_path: Path) -> None:
    before = tiny_mlu.contents(run)
    new, data = f"--run={tmp_path}/new", f"--data-dir={tmp_path}/data"
    commands = [
        ["train", "mlu", "--quiet", new, data, *tiny_mlu.settings()],
        ["export", str(run), f"--to={tmp_path}/saved"],
    ]
    of_data, of_model = errors_of_several(commands, limited(50_000))
    assert of_data.startswith(f"quasiattn: cannot write the data to {tmp_path}/data: ")
    assert of_model.startswith(f"quasiattn: cannot write {tmp_path}/saved/run/1: ")
    assert tiny_mlu.contents(run) == before
    assert not (tmp_path / "saved").exists() and not list((tmp_path / "new").iterdir())
    assert not list((tmp_path / "data").rglob("*tfrecord*"))


def test_full_standard_output() -> None:
    with open("/dev/full", "wb") as full:
        ended = tiny_mlu.quasiattn("tasks", capture_output=False, stdout=full, stderr=subprocess.PIPE)
    assert (ended.returncode, ended.stderr) == (1, b"quasiattn: system: No space left on device\n")


def without_root_power() -> None:
    """Root too may then write only where the mode of a folder says so."""
    drop_from_bounding_set, override, search = 24, 1, 2
    for capability in (override, search):
        ctypes.CDLL(None).prctl(drop_from_bounding_set, capability, 0, 0, 0)


def test_folders_that_cannot_be_written(mlu_run: Path, mlu_data: Path, tmp_path: Path) -> None:
    place = tmp_path / "place"
    run, data = shutil.copytree(mlu_run, place / "run"), shutil.copytree(mlu_data, place / "data")
    (place / "thesis").mkdir()
    (place / "thesis" / "thesis.tex").write_text("years of work")
    for folder in (place, *place.rglob("*/")):
        folder.chmod(0o555)
    before = tiny_mlu.contents(place)
    commands = [
        ["train", "mlu", f"--run={place}/new", f"--data-dir={data}", "--quiet", *tiny_mlu.settings()],
        ["train", "mlu", f"--run={place}/thesis", f"--data-dir={data}", "--quiet"],
        ["evaluate", str(run), f"--data-dir={data}", "--limit=1"],
        ["evaluate", str(run), f"--data-dir={place}/other", "--limit=1"],
        ["export", str(run), f"--to={place}/saved"],
    ]
    messages = [
        f"cannot make the run folder {place}/new: Permission denied",
        f"{place}/thesis holds other files .such as thesis.tex. and no run: name a new folder",
        f"cannot write {run}/metrics.json: Permission denied",
        f"cannot write the data to {place}/other: .*Permission denied",
        f"cannot write {place}/saved/run/1: Permission denied",
    ]
    for line, message in zip(errors_of_several(commands, without_root_power), messages, strict=True):
        assert re.match(f"quasiattn: {message}", line), line
    assert tiny_mlu.contents(place) == before


# Long enough that a signal arrives before the end on a machine that is busy with other things.
LONG = tiny_mlu.settings(training__steps=120, training__checkpoint_every=5, model__dropout=0.1)


def heeding_control_c() -> None:
    """A shell starts what it puts into the background with SIGINT ignored, and every process below inherits that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def started_until_a_checkpoint(arguments: list[str], run: Path, then: signal.Signals) -> Outcome:
    """Starts a training and ends it in the middle of the period after its second checkpoint."""
    before = len(RunFolder.open(run).history()) if run.exists() else 0
    process = subprocess.Popen(
        [sys.executable, "-m", "quasiattn", *arguments],
        env=tiny_mlu.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heeding_control_c,
    )
    second = f"step-{(before + 2) * 5:08d}.npz"
    deadline = time.monotonic() + 240
    # It, or a later one: on a busy machine it may be gone again before anybody has looked.
    while process.poll() is None and time.monotonic() < deadline:
        if any(file.name >= second for file in (run / "checkpoints").glob("step-*.npz")):
            break
        time.sleep(0.002)
    process.send_signal(then)
    out, err = process.communicate(timeout=240)
    return process.returncode, out, err


@pytest.fixture(scope="module")
def disturbed(mlu_data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Outcome]]:
    """A run that was stopped by Control-C, killed, and started again to its end."""
    run = tmp_path_factory.mktemp("disturbed") / "run"
    arguments = ["train", "mlu", f"--run={run}", f"--data-dir={mlu_data}", *LONG]
    outcomes = [started_until_a_checkpoint(arguments, run, then) for then in (signal.SIGINT, signal.SIGKILL)]
    assert not (run / "model.keras").exists(), outcomes
    ended = tiny_mlu.quasiattn(*arguments)
    outcomes.append((ended.returncode, ended.stdout.decode(), ended.stderr.decode()))
    return run, outcomes


def test_control_c_is_one_line(disturbed: tuple[Path, list[Outcome]]) -> None:
    _, ((code, _, err), *_) = disturbed
    assert code == 130
    assert err == "quasiattn: stopped; a training goes on from its last checkpoint when started again\n"


def test_killed_run_ends_with_the_weights_of_an_undisturbed_one(
    disturbed: tuple[Path, list[Outcome]], mlu_data: Path, tmp_path: Path, run_cli: Any
) -> None:
    run, (_, (code, _, _), (last_code, out, err)) = disturbed
    assert (code, last_code, err) == (-signal.SIGKILL, 0, "")
    step = int(re.match(rf"{run}: going on from step (\d+) of 120\n", out)[1])
    assert 20 <= step < 120
    other = tmp_path / "run"
    assert run_cli("train", "mlu", f"--run={other}", f"--data-dir={mlu_data}", "--quiet", *LONG)[0] == 0
    expected, got = (RunFolder.open(path).load_model().get_weights() for path in (other, run))
    assert len(expected) > 10
    for left, right in zip(expected, got, strict=True):
        np.testing.assert_array_equal(left, right)
    assert RunFolder.open(run).metrics() == RunFolder.open(other).metrics()
