"""Runtimes other than TensorFlow: writing a model's file for them, and running it."""

import contextlib
import importlib
import logging
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import keras
import numpy as np

from keras_quasiattn.errors import UserError

Answer = Callable[[Mapping[str, np.ndarray]], dict[str, np.ndarray]]


class Runtime(NamedTuple):
    """A runtime for exported models.

    Args:
        name: display name.
        packages: packages that must be importable; the extra named after the runtime's key in
            `RUNTIMES` installs them.
        file: name of the file that it loads.
        write: takes a functional model with a dictionary of outputs, and the path to write it to.
        load: takes that path; returns a function from arrays by input name to arrays by output
            name.
    """

    name: str
    packages: tuple[str, ...]
    file: str
    write: Callable[[keras.Model, Path], None]
    load: Callable[[Path], Answer]


def need_runtime(key: str) -> Runtime:
    """Look up a runtime and check that its packages can be imported.

    Args:
        key: one of `RUNTIMES`.

    Raises:
        UserError: an unknown runtime, or one whose packages are not installed.
    """
    if key not in RUNTIMES:
        raise UserError.unknown("target", key, ["savedmodel", *RUNTIMES])
    runtime = RUNTIMES[key]
    for package in runtime.packages:
        try:
            importlib.import_module(package)
        except ImportError as error:
            raise UserError(
                f"{runtime.name} needs {package}, which cannot be imported ({error}): "
                f"pip install 'keras-quasiattn[{key}]'"
            ) from None
    return runtime


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence the log messages and warnings of converters."""
    loggers = [logging.getLogger(name) for name in ("tensorflow", "tf2onnx", "absl")]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.CRITICAL)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _write_onnx(model: keras.Model, path: Path) -> None:
    with _quiet():
        model.export(str(path), format="onnx", verbose=False)


def _load_onnx(path: Path) -> Answer:
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return lambda inputs: dict(zip(names, session.run(names, dict(inputs)), strict=True))


def _write_litert(model: keras.Model, path: Path) -> None:
    with _quiet():
        model.export(str(path), format="litert", verbose=False)


def _load_litert(path: Path) -> Answer:
    from ai_edge_litert.interpreter import Interpreter

    answer = Interpreter(model_path=str(path)).get_signature_runner()
    return lambda inputs: answer(**inputs)


def _write_openvino(model: keras.Model, path: Path) -> None:
    import openvino

    # Keras' own export converts a function, but OpenVINO can read the loops of recurrent layers
    # only from a SavedModel.
    with _quiet(), tempfile.TemporaryDirectory() as folder:
        model.export(folder, format="tf_saved_model", verbose=False)
        openvino.save_model(openvino.convert_model(folder), path, compress_to_fp16=False)


def _load_openvino(path: Path) -> Answer:
    import openvino

    # By default OpenVINO computes in bfloat16 where the processor supports it.
    compiled: Any = openvino.Core().compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return lambda inputs: {
        output.any_name: np.array(value) for output, value in compiled(dict(inputs)).items()
    }


RUNTIMES: Final = {
    "onnx": Runtime(
        "ONNX Runtime", ("onnx", "tf2onnx", "onnxruntime"), "model.onnx", _write_onnx, _load_onnx
    ),
    "litert": Runtime("LiteRT", ("ai_edge_litert",), "model.tflite", _write_litert, _load_litert),
    "openvino": Runtime("OpenVINO", ("openvino",), "model.xml", _write_openvino, _load_openvino),
}
