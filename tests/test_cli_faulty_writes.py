"""Every command that writes, for every n: its n-th change of a file fails, or ends the process.

CI tries one write each of two commands. This tries every write of all of them, in about an hour:

python -m pytest -m "" tests/test_cli_faulty_writes.py

The writes of `tune` are divided into parts, each a separate test.
"""

import json
import random
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import tiny_mlu

from keras_quasiattn.files import MANIFEST, check_hashes, is_temporary

# This audit hook sees the functions that change files. It notes each change that the process asks
# for below the folder in a file outside. The n-th change fails, or the process ends there. The hook
# does not see C++ (the variables of a SavedModel, curves); test_cli_interrupted.py has a disk that
# is full there.
DOUBLE = """
import errno, os, signal, sys
root, note, number, fault = {root!r}, {note!r}, {number}, {fault!r}
changing = {{"open": 0, "os.rename": 1, "os.mkdir": 0, "os.remove": 0, "os.rmdir": 0}}
seen = []
def asked(what, path):
    if not path.startswith(root + os.sep):
        return
    seen.append(what)
    with open(note, "a") as file:
        print(what, os.path.relpath(path, root), file=file)
    if len(seen) == number and fault == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if len(seen) == number and fault == "fail":
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
def hook(event, arguments):
    if event not in changing or isinstance(arguments[changing[event]], int):
        return
    if event == "open" and not arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
        return
    path = os.fsdecode(arguments[changing[event]])
    if event in ("os.remove", "os.rmdir") and arguments[1] >= 0:
        path = os.path.join(os.readlink(f"/proc/self/fd/{{arguments[1]}}"), path)
    asked(event, os.path.abspath(path))
sys.addaudithook(hook)
real_fsync = os.fsync
def fsync(descriptor):
    asked("fsync", os.readlink(f"/proc/self/fd/{{descriptor}}"))
    real_fsync(descriptor)
os.fsync = fsync
sys.path.insert(0, {toy!r})
from keras_quasiattn.lab import tasks
tasks._TASKS["toy"] = "toy_task:ToyTask"
"""
TOY = [
    "toy",
    "--set=training.steps=8",
    "--set=training.average_checkpoints=1",
    "--set=data.validation_batches=1",
]


class Command(NamedTuple):
    """A command that works in a folder, and the results to compare."""

    words: Callable[[Path], list[str]]
    results: Callable[[Path], Any]


def history(run):
    return [
        {**json.loads(line), "seconds": 0}
        for line in (run / "history.jsonl").read_text().splitlines()
    ]


def weights(run):
    files = sorted((run / "checkpoints").iterdir())
    return [[file.name, *(array.tolist() for array in np.load(file).values())] for file in files]


def searched(folder):
    trials = [
        json.loads(file.read_text()) for file in sorted(folder.glob("search/trial_*/trial.json"))
    ]
    runs = [history(file.parent) for file in sorted(folder.glob("search/*/*/model.keras"))]
    return [[(trial["hyperparameters"]["values"], trial["score"]) for trial in trials], runs]


COMMANDS = {
    "train": Command(
        lambda folder: [
            *("train", *TOY, f"--run={folder}/run", f"--data-dir={folder}/data", "--quiet")
        ],
        lambda folder: [history(folder / "run"), weights(folder / "run")],
    ),
    "tune": Command(
        lambda folder: [
            *("tune", *TOY, f"--to={folder}/search", f"--data-dir={folder}/data"),
            *("--try=model.width=4,6,8", "--trials=2"),
        ],
        searched,
    ),
    "evaluate": Command(
        lambda folder: ["evaluate", f"{folder}/run", f"--data-dir={folder}/data", "--limit=4"],
        lambda folder: json.loads((folder / "run/metrics.json").read_text()),
    ),
    "export": Command(
        lambda folder: ["export", f"{folder}/run", f"--to={folder}/saved"],
        lambda folder: (folder / "saved/models.config").read_text(),
    ),
}


def start(name, folder, number=0, fault=""):
    """Run the command, with a fault at the change of this number.

    Return the exit code, the lines of standard error, and all changes that the process requested.
    """
    note = folder.with_suffix(".note")
    note.unlink(missing_ok=True)
    toy = str(tiny_mlu.ROOT / "tests/training")
    before = DOUBLE.format(root=str(folder), note=str(note), number=number, fault=fault, toy=toy)
    ended = tiny_mlu.warm_quasiattn(*COMMANDS[name].words(folder), before=before)
    lines = [
        line
        for line in ended.stderr.decode().splitlines()
        if "Traceback" in line or line.startswith("quasiattn")
    ]
    asked = (
        note.read_text().splitlines() if note.exists() else []
    )  # a finished run is left as it is
    return ended.returncode, "\n".join(lines), asked


def fresh(folder, mlu_run, mlu_data):
    """Make a folder with the run and the data that some commands start from."""
    shutil.copytree(mlu_run, folder / "run")
    shutil.copytree(mlu_data, folder / "data")
    return folder


def names(folder):
    """Return the files there, except curves, whose names contain the time."""
    found = (str(path.relative_to(folder)) for path in folder.rglob("*"))
    return sorted(name for name in found if "tensorboard" not in name and "tfevents" not in name)


def assert_nothing_is_half_visible(folder):
    for file in folder.rglob("*"):
        if not file.is_file() or any(map(is_temporary, (file, *file.parents))):
            continue
        # metrics.json is empty while the process that creates it holds the lock.
        if file.suffix == ".json" and file.stat().st_size:
            json.loads(file.read_text())
        elif file.suffix == ".jsonl":
            assert all(json.loads(line) for line in file.read_text().splitlines())
        elif file.suffix in (".npz", ".keras"):
            assert zipfile.ZipFile(file).testzip() is None
    for version in folder.glob("saved/run/[0-9]*"):
        manifest = version / "assets.extra" / MANIFEST
        assert manifest.exists()
        check_hashes(manifest, version)


def one_of(name, fault):
    return lambda numbers: [random.Random(name + fault).choice(numbers)]


def every(parts, part):
    return lambda numbers: numbers[part::parts]


@pytest.mark.parametrize(
    ("name", "fault", "choose"),
    [
        pytest.param("train", "kill", one_of("train", "kill"), marks=pytest.mark.long),
        pytest.param("tune", "fail", one_of("tune", "fail"), marks=pytest.mark.long),
        *(
            pytest.param(
                name,
                fault,
                every(parts, part),
                marks=pytest.mark.complete,
                id=f"{name}-{fault}-{part}of{parts}",
            )
            for name in COMMANDS
            for fault in ("kill", "fail")
            for parts in [10 if name == "tune" else 1]
            for part in range(parts)
        ),
    ],
)
def test_a_fault_at_any_write_loses_nothing_and_leaves_nothing(
    name, fault, choose, mlu_run, mlu_data, tmp_path
):
    def begin(place):
        folder = tmp_path / place
        folder.mkdir()
        return fresh(folder, mlu_run, mlu_data) if name in ("evaluate", "export") else folder

    def outside_of_versions(folder):  # of which there may be one more
        return [entry for entry in names(folder) if "saved/run/" not in entry]

    def check(number):
        folder = begin(str(number))
        code, said, got = start(name, folder, number, fault)
        assert len(got) >= number
        if fault == "kill":
            assert code == -9
        else:  # some failures are harmless, such as when removing existing files
            assert code in (0, 1) and "Traceback" not in said, said
            assert (said.count("\n"), bool(said)) == (0, code == 1), said
        assert_nothing_is_half_visible(folder)
        code, said, _ = start(name, folder)
        assert code == 0, f"the next start said: {said}"
        assert_nothing_is_half_visible(folder)
        assert outside_of_versions(folder) == outside_of_versions(whole)
        assert not [entry for entry in names(folder) if ".tmp-" in entry]
        assert COMMANDS[name].results(folder) == COMMANDS[name].results(whole)
        shutil.rmtree(folder)

    whole = begin("whole")
    code, said, asked = start(name, whole)
    assert code == 0, said
    assert not [entry for entry in names(whole) if ".tmp-" in entry]
    wrong = []
    for number in choose(range(1, len(asked) + 1)):
        try:
            check(number)
        except AssertionError as error:
            wrong.append(f"{number} of {len(asked)}, {asked[number - 1]}: {error}")
    assert not wrong, "\n".join(wrong)
