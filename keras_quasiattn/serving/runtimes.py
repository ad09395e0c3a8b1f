"""Convert any Keras model for ONNX Runtime, LiteRT or OpenVINO, and check it in that runtime."""

import contextlib
import importlib
import logging
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import keras
import numpy as np

from keras_quasiattn.errors import UserError

OUTPUT: Final = "logits"
# Largest accepted difference, relative to the largest number of the answer if above 1.
_ROUNDING = 1e-4

Inputs = Mapping[str, np.ndarray]
Answer = Callable[[Inputs], Mapping[str, np.ndarray]]


class Runtime(NamedTuple):
    """A runtime other than TensorFlow."""

    name: str
    packages: tuple[str, ...]
    file: str
    write: Callable[[keras.Model, Path], None]
    load: Callable[[Path], Answer]


def need_runtime(key: str) -> Runtime:
    """Look up a runtime and check that its packages can be imported.

    Args:
        key: "onnx", "litert" or "openvino".

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


def convert_model(
    model: keras.Model, runtime: Runtime, folder: Path, batches: Sequence[Inputs]
) -> float:
    """Write a model's file for a runtime, load the file, and compare the runtime's answers."""
    named = keras.Model(model.input, {OUTPUT: model(model.input)}, name="model")
    # Call the model first: Keras exports only models that have been called.
    expected = [_own_answer(named, inputs) for inputs in batches]
    with _as_user_error(f"{runtime.name} cannot convert this model"):
        runtime.write(named, folder / runtime.file)
        answer = runtime.load(folder / runtime.file)
    pairs = zip(batches, expected, strict=True)
    return max(_difference(runtime.name, answer, *pair) for pair in pairs)


def _own_answer(model: keras.Model, inputs: Inputs) -> np.ndarray:
    first, *others = inputs.values()
    return keras.ops.convert_to_numpy(model(inputs if others else first, training=False)[OUTPUT])


def _difference(runtime: str, answer: Answer, inputs: Inputs, expected: np.ndarray) -> float:
    with _as_user_error(f"{runtime} cannot run this model"):
        got = answer(inputs)[OUTPUT]
    shapes = {name: one.shape for name, one in inputs.items()}
    if got.shape != expected.shape:
        raise UserError(
            f"not exported: for inputs of shapes {shapes}, {runtime} returns {OUTPUT} of shape "
            f"{got.shape}, but the model returns {expected.shape}"
        )
    difference = float(np.max(np.abs(got - expected)) / max(1.0, float(np.max(np.abs(expected)))))
    if not difference <= _ROUNDING:  # NaN too
        raise UserError(
            f"not exported: for inputs of shapes {shapes}, {runtime} returns {OUTPUT} that differ "
            f"by {difference:.2g} from the model's (at most {_ROUNDING:g} is accepted)"
        )
    return difference


@contextlib.contextmanager
def _as_user_error(what: str) -> Iterator[None]:
    """Turn any error of a converter or runtime into a `UserError`."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        words = " ".join(str(error).split()) or type(error).__name__
        raise UserError(f"{what}: {words.partition('. ')[0][:300]}") from error


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


def _export_as(form: str) -> Callable[[keras.Model, Path], None]:
    def write(model: keras.Model, path: Path) -> None:
        with _quiet():
            model.export(str(path), format=form, verbose=False)

    return write


def _write_onnx(model: keras.Model, path: Path) -> None:
    import onnx

    from keras_quasiattn.serving.onnx_ops import unknown_ops

    _export_as("onnx")(model, path)
    if left := unknown_ops(onnx.load(path, load_external_data=False)):
        raise ValueError(f"tf2onnx cannot convert TensorFlow's {', '.join(left)}")


def _write_openvino(model: keras.Model, path: Path) -> None:
    import openvino

    # Keras' own export converts a function, but OpenVINO can read the loops of recurrent layers
    # only from a SavedModel.
    with _quiet(), tempfile.TemporaryDirectory() as folder:
        model.export(folder, format="tf_saved_model", verbose=False)
        openvino.save_model(openvino.convert_model(folder), path, compress_to_fp16=False)


def _load_onnx(path: Path) -> Answer:
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return lambda inputs: dict(zip(names, session.run(names, dict(inputs)), strict=True))


def _load_litert(path: Path) -> Answer:
    from ai_edge_litert.interpreter import Interpreter

    answer = Interpreter(model_path=str(path)).get_signature_runner()
    return lambda inputs: answer(**inputs)


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
    "litert": Runtime(
        "LiteRT", ("ai_edge_litert",), "model.tflite", _export_as("litert"), _load_litert
    ),
    "openvino": Runtime("OpenVINO", ("openvino",), "model.xml", _write_openvino, _load_openvino),
}
