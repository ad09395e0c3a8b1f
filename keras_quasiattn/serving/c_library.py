"""Run `c_session` in a separate process with limited time and memory."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO, Any, Final

from keras_quasiattn.errors import UserError
from keras_quasiattn.serving.c_session import packed, unpacked

_PROGRAM = Path(__file__).with_name("c_session.py")
_LIBRARIES = ("libtensorflow_framework.so.2", "libtensorflow_cc.so.2")
# Bytes that a check may use for the libraries and a batch of 64, and per copy of the model.
_MEMORY: Final = 8 * 2**30
_COPIES: Final = 4
# -I isolates it from the current folder, PYTHONPATH and the user's packages.
_COMMAND = (sys.executable, "-I", str(_PROGRAM))


def run_c_session(
    path: Path | None, *, with_text: bool = True, seconds: float = 900.0, **job: Any
) -> dict[str, Any]:
    """Run a job in `c_session` and return its result.

    A SavedModel is a program. The process that runs it has the same permissions as this one, but
    limited time and memory.

    Args:
        path: the SavedModel's folder; None asks for the registered ops and kernels.
        with_text: whether to load the kernels of tensorflow-text. Defaults to True.
        seconds: time limit. Defaults to 900.
        **job: `requests` and `timed`, as `c_session` takes them.

    Raises:
        UserError: the C library refused the model or a request, was not found, took too long, or
            crashed.
    """
    folder = _folder("tensorflow")
    kernels = sorted(_folder("tensorflow_text").glob("python/ops/_*.so")) if with_text else []
    given = {
        "libraries": [str(folder / name) for name in _LIBRARIES],
        "kernels": [str(kernel) for kernel in kernels],
        "path": None if path is None else str(path.resolve()),
        "memory": _MEMORY + _COPIES * _size(path),
        **job,
    }
    # Files, not pipes: the process cannot exceed their size limit and never waits for a reader.
    with tempfile.TemporaryFile() as reply, tempfile.TemporaryFile() as errors:
        try:
            ended = subprocess.run(
                (*_COMMAND, str(reply.fileno())),
                input=json.dumps(given, default=packed).encode(),
                stdout=subprocess.DEVNULL,
                stderr=errors,
                pass_fds=(reply.fileno(),),
                timeout=seconds,
                env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
            )
        except subprocess.TimeoutExpired:
            raise UserError(
                f"TensorFlow's C library took more than {seconds:g} seconds for {path}"
            ) from None
        if ended.returncode:
            code = ended.returncode
            how = signal.Signals(-code).name if code < 0 else f"code {code}"
            raise UserError(
                f"TensorFlow's C library ended with {how} on {path}: {_last_line(errors)}"
            )
        try:
            reply.seek(0)
            result = dict(json.load(reply, object_hook=unpacked))
        except (ValueError, TypeError, RecursionError):
            raise UserError(
                f"TensorFlow's C library gave an unreadable answer for {path}"
            ) from None
    if "error" in result:
        raise UserError(
            f"TensorFlow's C library cannot run {path}: {' '.join(result['error'].split())}"
        )
    return result


def _size(path: Path | None) -> int:
    """Return the size of a SavedModel on disk, in bytes."""
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) if path else 0


def _last_line(file: IO[bytes]) -> str:
    """Return the last line of the file."""
    file.seek(max(0, file.seek(0, os.SEEK_END) - 2000))
    said = file.read().decode("utf-8", "replace").strip().splitlines()
    return said[-1] if said else "it printed no message"


def _folder(package: str) -> Path:
    """Find the folder of an installed package without importing it."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise UserError(f"{package} is not installed: pip install 'keras-quasiattn[tasks]'")
    return Path(spec.origin).parent
