"""Import Keras and TensorFlow when a command has something to compute."""

import contextlib
import importlib
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.training.config import read_config

if TYPE_CHECKING:
    from keras_quasiattn.lab.tasks import Task
    from keras_quasiattn.lab.training import RunFolder


def load() -> None:
    """Import Keras and the layers, which the package has skipped so far; suppress messages."""
    package = sys.modules["keras_quasiattn"]
    if hasattr(package, "attention"):
        return
    missing = None
    if sys.stderr.isatty():
        sys.stderr.write("loading TensorFlow\n")
    with _silent_unless_it_fails():
        try:
            importlib.reload(package)
        except ModuleNotFoundError as error:
            missing = str(error.name)
            if missing.startswith("keras_quasiattn"):
                raise
    if missing:
        raise UserError(f"{missing} is not installed: pip install 'keras-quasiattn[tasks]'")


def finished_run(run: Path, data_dir: Path = Path("data")) -> "tuple[RunFolder, Task]":
    """Return a finished run and its task, after checking the folder before anything slow begins."""
    read_config(run)
    load()
    from keras_quasiattn.lab.training import RunFolder

    folder = RunFolder.open(run, finished=True)
    return folder, folder.task(data_dir)


@contextlib.contextmanager
def waiting(what: str) -> Iterator[None]:
    """Report on standard error what the body does: at once on a terminal, else if it takes long."""
    from keras_quasiattn.lab.training import progress

    silence = progress._SILENCE / 3
    with progress.Progress(True, sys.stderr, silence) as shown, shown.busy(what):
        if shown.terminal:
            shown.replace(what)
        yield


@contextlib.contextmanager
def _silent_unless_it_fails() -> Iterator[None]:
    """Hold back standard error, including C++ output, and write it if the body raises.

    TensorFlow writes messages to file descriptor 2 while it loads, before it reads any of its
    settings. If Control-C silences standard error meanwhile, it stays silent.
    """
    sys.stderr.flush()
    standard_error = os.dup(2)
    with tempfile.TemporaryFile() as held_back:
        os.dup2(held_back.fileno(), 2)
        failed = True
        try:
            yield
            failed = False
        finally:
            sys.stderr.flush()
            if os.path.sameopenfile(2, held_back.fileno()):
                os.dup2(standard_error, 2)
                if failed:
                    held_back.seek(0)
                    os.write(2, held_back.read())
            os.close(standard_error)
