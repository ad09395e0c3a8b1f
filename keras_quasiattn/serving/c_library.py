"""Starts `c_session` as a process of its own, and reads what TensorFlow's C library knows."""

import importlib.util
import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from keras_quasiattn.errors import UserError

_PROGRAM = Path(__file__).with_name("c_session.py")
_LIBRARIES = ("libtensorflow_framework.so.2", "libtensorflow_cc.so.2")
# Isolated: neither the current folder nor PYTHONPATH nor the user's packages.
_COMMAND = (sys.executable, "-I", str(_PROGRAM))


def run_c_session(
    path: Path | None, *, with_text: bool = True, seconds: float = 900.0, **job: Any
) -> dict[str, Any]:
    """What `c_session` made of a job.

    Args:
        path: the SavedModel's folder; None asks for what is registered.
        with_text: load the kernels of tensorflow-text.
        seconds: how long it may take.
        **job: `requests` and `timed`, as `c_session` takes them.

    Raises:
        UserError: the C library refused the model or a request, was not found, took too long, or crashed.
    """
    folder = _folder("tensorflow")
    kernels = sorted(_folder("tensorflow_text").glob("python/ops/_*.so")) if with_text else []
    given = {
        "libraries": [str(folder / name) for name in _LIBRARIES],
        "kernels": [str(kernel) for kernel in kernels],
        "path": None if path is None else str(path.resolve()),
        **job,
    }
    try:
        ended = subprocess.run(
            _COMMAND,
            input=pickle.dumps(given),
            capture_output=True,
            timeout=seconds,
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        )
    except subprocess.TimeoutExpired:
        raise UserError(f"TensorFlow's C library took more than {seconds:g} seconds for {path}") from None
    if ended.returncode:
        said = ended.stderr.decode("utf-8", "replace").strip().splitlines()
        how = signal.Signals(-ended.returncode).name if ended.returncode < 0 else f"code {ended.returncode}"
        raise UserError(
            f"TensorFlow's C library ended with {how} on {path}: {said[-1] if said else 'no word'}"
        )
    result = pickle.loads(ended.stdout)
    if "error" in result:
        raise UserError(f"TensorFlow's C library refuses {path}: {' '.join(result['error'].split())}")
    return result


def registered_ops(*, with_text: bool) -> frozenset[str]:
    """Names of the ops that have a kernel for CPUs."""
    from tensorflow.core.framework import kernel_def_pb2, op_def_pb2

    ops, kernels = run_c_session(None, with_text=with_text)["registered"]
    known = kernel_def_pb2.KernelList.FromString(kernels).kernel
    runnable = {kernel.op for kernel in known if kernel.device_type in ("CPU", "DEFAULT")}
    return frozenset(op.name for op in op_def_pb2.OpList.FromString(ops).op if op.name in runnable)


def _folder(package: str) -> Path:
    """Where a package lies, without importing it."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise UserError(f"{package} is not installed: pip install 'keras-quasiattn[tasks]'")
    return Path(spec.origin).parent
