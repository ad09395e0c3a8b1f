"""From a finished run to a versioned SavedModel that TensorFlow Serving can load."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_quasiattn.errors import UserError
from keras_quasiattn.serving.about import write_about
from keras_quasiattn.serving.quantization import Quantized
from keras_quasiattn.serving.server_files import add_model, read_models
from keras_quasiattn.serving.signatures import example_inputs, signature_functions
from keras_quasiattn.serving.version_folder import new_version
from keras_quasiattn.serving.warm_up import RecordedRequest, need_serving_api, write_warm_up
from keras_quasiattn.tasks import ServingSignature, Task
from keras_quasiattn.training import RunFolder
from keras_quasiattn.training.files import appearing

# TensorFlow Serving ignores this folder but for warm-up requests; what is known of the model lies beside them.
ABOUT = Path("assets.extra") / "about.json"
_ROUNDING = 1e-3


def export(
    folder: RunFolder,
    task: Task,
    target: str | Path,
    *,
    name: str | None = None,
    version: int | None = None,
    quantized: Quantized | None = None,
) -> Path:
    """Write a finished run's model to `target/name/version/`, and name it in `target/models.config`.

    Two signatures, `serving_default` (strings) and `token_ids`, give dictionaries. The text handling is part of the
    graph; a process needs tensorflow and the kernels of tensorflow-text to load it, and neither Keras nor this
    package. In `assets.extra` lie requests that a server warms up with, with their answers, and what is known of the
    model, its vocabulary included. The folder appears under its name only when it is complete, has been loaded again
    and has answered the task's example as the model itself does; a server that watches `target/name` never sees less.

    Args:
        folder: the finished run.
        task: the run's task, `folder.task(data_dir)`.
        target: folder of all exported models; made if it is missing.
        name: name of the model; default the name of the run folder.
        version: positive number of the version; default one more than the highest there is.
        quantized: what to write in place of the run's own model.

    Returns:
        The folder of the version.

    Raises:
        UserError: the run is not finished; the name or version does not suit; the version is there already;
            the folder cannot be written; the written model does not answer as it should; TensorFlow Serving's
            messages are not installed; or `models.config` is damaged.

    ```python
    folder = RunFolder.open("runs/mlu-coda", finished=True)
    export(folder, folder.task("data"), "saved_models")
    ```
    """
    name = folder.path.resolve().name if name is None else name
    final = new_version(target, name, version)
    need_serving_api()
    read_models(Path(target))
    model = quantized.model if quantized else folder.load_model()
    with appearing(final) as temporary, _said_by_tensorflow(final):
        signature = task.serving_signature(model)
        _write(signature, model, temporary)
        records = _ask(signature, task.example, temporary)
        _check(task, model, records)
        write_warm_up(temporary, name, records)
        write_about(folder, task, temporary, temporary / ABOUT, quantized)
    add_model(Path(target), name)
    return final


@contextlib.contextmanager
def _said_by_tensorflow(final: Path) -> Iterator[None]:
    """TensorFlow's own errors about files, such as of a full disk, as one of ours."""
    try:
        yield
    except tf.errors.OpError as error:
        raise UserError(f"cannot write {final}: {str(error).splitlines()[0]}") from error


def _write(signature: ServingSignature, model: keras.Model, path: Path) -> None:
    # Not Keras' ExportArchive, which writes every weight twice.
    module = tf.Module()
    module.answers = signature_functions(signature)
    module.weights = [variable.value for variable in model.variables]
    module.resources = signature.resources
    signatures = {
        name: function.get_concrete_function() for name, function in module.answers.items()
    }
    tf.saved_model.save(module, str(path), signatures=signatures)


def _ask(signature: ServingSignature, example: str, path: Path) -> list[RecordedRequest]:
    """What the written model answers to the example, alone and beside a row with nothing in it."""
    loaded = tf.saved_model.load(str(path))
    records = []
    for name, alone in example_inputs(signature, example).items():
        beside = {key: np.concatenate([value, _nothing(value)]) for key, value in alone.items()}
        for inputs in (alone, beside):
            asked = {key: tf.constant(value) for key, value in inputs.items()}
            answer = {key: value.numpy() for key, value in loaded.signatures[name](**asked).items()}
            records.append(RecordedRequest(name, inputs, answer))
    return records


def _nothing(array: np.ndarray) -> np.ndarray:
    return np.full_like(array, b"" if array.dtype == object else 0)


def _check(task: Task, model: keras.Model, records: list[RecordedRequest]) -> None:
    """The written model answers the example as the model itself does, however it is asked."""
    expected = task.predict(model, [task.example])[0]
    for record in records:
        for key, value in record.answer.items():
            got = _plain(value[0])
            if not _alike(got, expected[key]):
                raise UserError(
                    f"the exported model answers {key} {got!r} to {task.example!r}, and the model itself "
                    f"{expected[key]!r}: not exported"
                )


def _plain(value: Any) -> Any:
    """An array, a number or bytes as lists, numbers and texts."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return [_plain(one) for one in value] if isinstance(value, np.ndarray) else value


def _alike(got: Any, expected: Any) -> bool:
    if isinstance(expected, list):
        return len(got) == len(expected) and all(map(_alike, got, expected))
    return (
        got == expected
        if isinstance(expected, str)
        else bool(abs(float(got) - float(expected)) < _ROUNDING)
    )
