"""Run a SavedModel in a separate process with limited time and memory."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final

import numpy as np

from keras_quasiattn.errors import UserError
from keras_quasiattn.serving.session_program import packed, unpacked

# Bytes that a check may use for TensorFlow and a batch of 64, and per copy of the model.
_MEMORY: Final = 8 * 2**30
_COPIES: Final = 4
# -I isolates it from the current folder, and from PYTHONPATH and the user's packages but for those
# that hold NumPy and TensorFlow.
_COMMAND = (sys.executable, "-I", str(Path(__file__).with_name("session_program.py")))

# Inputs by tensor name, strings as object arrays of bytes, and the names of output tensors.
Call = tuple[Mapping[str, np.ndarray], Sequence[str]]


def run_session(
    path: Path, requests: Sequence[Call], timed: Sequence[tuple[Call, int]], seconds: float = 900.0
) -> tuple[list[list[np.ndarray]], list[list[float]]]:
    """Return the answers to some requests, and the times of repeated calls in seconds.

    Half of the `seconds` that the process may take are for the repetitions: slow calls get fewer.

    A SavedModel is a program. The process that runs it has the same permissions as this one, but
    limited time and memory, and cannot import Keras, tensorflow-text or this package.
    """
    text = importlib.util.find_spec("tensorflow_text")
    kernels = Path(str(text.origin)).parent.glob("python/ops/_*.so") if text else ()
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    job = {
        "path": str(path.resolve()),
        "kernels": sorted(map(str, kernels)),
        "memory": _MEMORY + _COPIES * size,
        "requests": [_sent(call) for call in requests],
        "timed": [(*_sent(call), repetitions) for call, repetitions in timed],
        "seconds": seconds / 2 / max(1, len(timed)),  # to time each call
    }
    # Files, not pipes: the process cannot exceed their size limit and never waits for a reader.
    with tempfile.TemporaryFile() as reply, tempfile.TemporaryFile() as errors:
        try:
            ended = subprocess.run(
                (*_COMMAND, str(reply.fileno()), *_packages()),
                input=json.dumps(job).encode(),
                stdout=subprocess.DEVNULL,
                stderr=errors,
                pass_fds=(reply.fileno(),),
                timeout=seconds,
                env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
            )
        except subprocess.TimeoutExpired:
            raise UserError(
                f"TensorFlow's process took more than {seconds:g} seconds for {path}"
            ) from None
        if ended.returncode:
            code = ended.returncode
            how = signal.Signals(-code).name if code < 0 else f"code {code}"
            raise UserError(f"TensorFlow's process ended with {how} on {path}: {_last(errors)}")
        try:
            reply.seek(0)
            result = json.load(reply)
            if "error" not in result:
                answers = [list(map(unpacked, arrays)) for arrays in result["answers"]]
                return answers, result["seconds"]
            said = " ".join(result["error"].split())
        except Exception:  # the model may have written anything
            raise UserError(f"TensorFlow's process gave an unreadable answer for {path}") from None
    raise UserError(f"TensorFlow cannot run {path}: {said}")


def _packages() -> set[str]:
    """Return the folders of NumPy and TensorFlow, which may be where only the user has packages."""
    found = map(importlib.util.find_spec, ("numpy", "tensorflow"))
    return {str(Path(str(spec.origin)).parents[1]) for spec in found if spec}


def _sent(call: Call) -> tuple[dict[str, str], Sequence[str]]:
    inputs, outputs = call
    return {name: packed(array) for name, array in inputs.items()}, outputs


def _last(file: IO[Any]) -> str:
    """Return the last line of the file."""
    file.seek(max(0, file.seek(0, os.SEEK_END) - 2000))
    said = file.read().decode("utf-8", "replace").strip().splitlines()
    return said[-1] if said else "it printed no message"
