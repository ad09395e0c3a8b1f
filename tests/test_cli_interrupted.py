"""The command line on a full disk, in read-only folders, and interrupted."""

import json
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest
import tiny_mlu
import warm
from tools import long_except

SEVERAL = """
import json, sys
from keras_quasiattn.lab import cli
for arguments in json.loads(sys.argv[1]):
    try:
        cli.main(arguments)
    except SystemExit as ended:
        print(ended.code)
"""


def errors_of_several(commands, before):
    """Return our lines on standard error from commands that must all fail, in one process."""
    command = [sys.executable, "-c", SEVERAL, json.dumps(commands)]
    ended = warm.run(command, text=True, env=tiny_mlu.environment(), before=before)
    assert ended.stdout.splitlines() == ["1"] * len(commands), ended.stderr
    assert "Traceback" not in ended.stderr
    return [line for line in ended.stderr.splitlines() if line.startswith("quasiattn: ")]


# A limit on the size of files stands for a full disk.
LIMITED = (
    "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, resource.RLIM_INFINITY))"
)
# Without CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH, root too may write only where the mode of a
# folder allows it.
WITHOUT_ROOT_POWER = """
import ctypes
libc, version_3 = ctypes.CDLL(None), 0x20080522
header, sets = (ctypes.c_uint32 * 2)(version_3, 0), (ctypes.c_uint32 * 6)()
assert libc.capget(header, sets) == 0
for of_low_numbers in range(3):
    sets[of_low_numbers] &= ~0b110
assert libc.capset(header, sets) == 0
"""


@pytest.mark.long
def test_full_disk(run, tmp_path):
    before = tiny_mlu.contents(run)
    new, data = f"--run={tmp_path}/new", f"--data-dir={tmp_path}/data"
    commands = [
        ["train", "mlu", "--quiet", new, data, *tiny_mlu.settings()],
        ["export", str(run), f"--to={tmp_path}/saved"],
    ]
    of_data, of_model = errors_of_several(commands, LIMITED)
    assert of_data.startswith(f"quasiattn: cannot write the data to {tmp_path}/data: ")
    assert of_model.startswith(f"quasiattn: cannot write {tmp_path}/saved/run/1: ")
    assert tiny_mlu.contents(run) == before
    assert not (tmp_path / "saved").exists() and not (tmp_path / "new").exists()
    assert not list((tmp_path / "data").rglob("*tfrecord*"))


@pytest.mark.long
def test_full_standard_output():
    with open("/dev/full", "wb") as full:
        ended = tiny_mlu.quasiattn(
            "tasks", capture_output=False, stdout=full, stderr=subprocess.PIPE
        )
    assert (ended.returncode, ended.stderr) == (1, b"quasiattn: system: No space left on device\n")


@pytest.mark.long
def test_folders_that_cannot_be_written(mlu_run, mlu_data, tmp_path):
    place = tmp_path / "place"
    run, data = shutil.copytree(mlu_run, place / "run"), shutil.copytree(mlu_data, place / "data")
    (place / "thesis").mkdir()
    (place / "thesis" / "thesis.tex").write_text("years of work")
    for folder in (place, *place.rglob("*/")):
        folder.chmod(0o555)
    before = tiny_mlu.contents(place)
    train = ("train", "mlu", f"--data-dir={data}", "--quiet")
    commands = [
        [*train, f"--run={place}/new", *tiny_mlu.settings()],
        [*train, f"--run={place}/thesis"],
        ["evaluate", str(run), f"--data-dir={data}", "--limit=1"],
        ["evaluate", str(mlu_run), f"--data-dir={place}/other", "--limit=1"],
        ["export", str(run), f"--to={place}/saved"],
    ]
    messages = [
        f"cannot create the run folder {place}/new: Permission denied",
        f"{place}/thesis holds other files .such as thesis.tex. but no run: name a new folder",
        f"cannot write {run}/metrics.json: Permission denied",
        f"cannot write the data to {place}/other: .*Permission denied",
        f"cannot write {place}/saved: Permission denied",
    ]
    for line, message in zip(
        errors_of_several(commands, WITHOUT_ROOT_POWER), messages, strict=True
    ):
        assert re.match(f"quasiattn: {message}", line), line
    assert tiny_mlu.contents(place) == before


# Work that a user may interrupt: each writes a file when it has begun.
INTERRUPTED = """
import os, pathlib, sys, threading, time
import tensorflow as tf
from keras_quasiattn.lab import cli, tasks
import keras_quasiattn.lab.cli.commands as module
from keras_quasiattn.lab.cli.loading import _silent_unless_it_fails

def tracing():
    @tf.function
    def graph(x):
        pathlib.Path({file!r}).touch()
        for _ in tf.range(3):
            for _ in range(100_000):
                x = x + 1.0
        return x
    graph(tf.constant(0.0))

def swallowing():
    pathlib.Path({file!r}).touch()
    while True:
        try:
            time.sleep(0.01)
        except BaseException:
            os.write(2, b"noise")

def translating():
    pathlib.Path({file!r}).touch()
    try:
        time.sleep(600)
    except KeyboardInterrupt:
        raise RuntimeError("many lines" * 3) from None

def computing():
    pathlib.Path({file!r}).touch()
    n = tf.constant(10**9)  # one operation of TensorFlow, far from any bytecode
    tf.function(lambda: tf.while_loop(lambda i: i < n, lambda i: i + 1, [tf.constant(0)]))()

def loading():
    with _silent_unless_it_fails():
        os.write(2, b"noise")
        pathlib.Path({file!r}).touch()
        time.sleep(600)

class Noisy:
    def __del__(self):
        raise ValueError("noise")

def deleting():
    kept = Noisy()
    pathlib.Path({file!r}).touch()
    time.sleep(600)

module._write_one = lambda *_: globals()[{what!r}]()
cli.main(["tasks", "classify"])
"""


FAST = ("tracing", "swallowing", "loading")


@pytest.mark.parametrize(
    "what", long_except((*FAST, "translating", "computing", "deleting"), *FAST)
)
def test_control_c_while_a_graph_was_traced_wrote_132_lines(what, tmp_path):
    begun = tmp_path / "begun"
    script = tmp_path / "script.py"  # a file, because AutoGraph reads its source
    script.write_text(INTERRUPTED.format(file=str(begun), what=what))
    process = warm.Process([sys.executable, script], env=tiny_mlu.environment())
    try:
        deadline = time.monotonic() + 240
        while process.poll() is None and not begun.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        code = process.wait(60)
    finally:
        process.kill()
    out, err = process.outputs()
    assert (code, out) == (130, b"")
    (line,) = err.decode().splitlines()
    assert line.startswith("quasiattn: stopped; if you repeat the command, training continues from")
