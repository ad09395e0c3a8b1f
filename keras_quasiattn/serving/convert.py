"""Convert a finished run for ONNX Runtime, LiteRT or OpenVINO."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from keras_quasiattn.errors import UserError
from keras_quasiattn.files import atomic_folder
from keras_quasiattn.serving.about import write_about
from keras_quasiattn.serving.quantization import Quantized
from keras_quasiattn.serving.runtimes import Answer, Runtime, need_runtime
from keras_quasiattn.serving.version_folder import new_version
from keras_quasiattn.tasks import ServingSignature, Task
from keras_quasiattn.training import RunFolder

OUTPUT: Final = "logits"
# Largest accepted difference, relative to the answer's largest number if that exceeds 1.
_ROUNDING = 1e-4
# (rows, length) of the batches to compare; each further input of a model is one longer.
_SHAPES = ((1, 1), (1, 7), (3, 5), (3, 13))


class Conversion(NamedTuple):
    """A converted version, and how far its answers are from the model's own."""

    path: Path
    runtime: str
    difference: float
    batches: int

    def line(self) -> str:
        """The comparison as a sentence."""
        return (
            f"{self.runtime} answers {self.batches} batches as the model does, "
            f"largest difference {self.difference:.2g}"
        )


def convert(
    folder: RunFolder,
    task: Task,
    target: str | Path,
    runtime: str,
    *,
    name: str | None = None,
    version: int | None = None,
    quantized: Quantized | None = None,
) -> Conversion:
    """Convert a finished run for another runtime and write it to `target/name-runtime/version/`.

    The file holds only the Keras model. It takes token ids, int32 (batch, length), under the names
    of the model's inputs (`ids`; `first` and `second`; `source` and `target`), and returns
    `logits`. Id 0 is padding at the end of a text and changes nothing. Text processing stays
    outside, since the runtimes take no strings, and so does the search for answers of several
    tokens. The task's vocabulary and `about.json`, with the ids of the task's example, are written
    beside the file.

    The runtime then loads the file and answers batches of one and of several rows, of several
    lengths, with padding and with an empty row. The folder gets its final name only if these
    answers match the model's.

    Args:
        folder: the finished run.
        task: the run's task, `folder.task(data_dir)`.
        target: folder of all exported models; created if missing.
        runtime: "onnx", "litert" or "openvino".
        name: name of the model, to which `-runtime` is added; default: the name of the run folder.
        version: positive version number; default: one more than the highest existing one.
        quantized: the quantized model to convert instead of the run's own.

    Raises:
        UserError: the run is not finished; the runtime is unknown, not installed or cannot run this
            model; the name or version is invalid; the version already exists; the folder cannot be
            written; or the runtime's answers differ.

    ```python
    folder = RunFolder.open("runs/snli", finished=True)
    print(convert(folder, folder.task("data"), "saved_models", "onnx").line())
    ```
    """
    chosen = need_runtime(runtime)
    name = folder.path.resolve().name if name is None else name
    final = new_version(target, f"{name}-{runtime}", version)
    model = quantized.model if quantized else folder.load_model()
    named = keras.Model(model.input, {OUTPUT: model(model.input)}, name="model")
    example = _example_ids(task.serving_signature(model), task.example)
    known = np.unique(np.concatenate(list(example.values())))
    batches = list(_batches([tensor.name for tensor in model.inputs], known[known != 0]))
    expected = _answers(named, batches)
    with atomic_folder(final) as temporary:
        temporary.mkdir()
        answer = _written(chosen, named, temporary / chosen.file)
        difference = max(
            _difference(chosen, answer, inputs, own)
            for inputs, own in zip(batches, expected, strict=True)
        )
        ids = {key: value.tolist() for key, value in example.items()}
        write_about(folder, task, temporary, temporary / "about.json", quantized, example_ids=ids)
    return Conversion(final, chosen.name, difference, len(batches))


def _answers(model: keras.Model, batches: list[dict[str, np.ndarray]]) -> list[np.ndarray]:
    """The model's own logits for every batch."""
    specs = {tensor.name: tf.TensorSpec((None, None), tf.int32) for tensor in model.inputs}

    @tf.function(input_signature=[specs])
    def answer(inputs: dict[str, tf.Tensor]) -> tf.Tensor:
        (alone, *others) = inputs.values()  # each (rows, length)
        return model(inputs if others else alone, training=False)[OUTPUT]

    return [
        answer({key: tf.constant(value) for key, value in inputs.items()}).numpy()
        for inputs in batches
    ]


def _written(runtime: Runtime, model: keras.Model, file: Path) -> Answer:
    """Write the runtime's file, load it, and return the function that answers from it."""
    try:
        runtime.write(model, file)
        return runtime.load(file)
    except OSError:
        raise
    except Exception as error:  # every converter raises its own errors
        raise UserError(f"{runtime.name} cannot convert this model: {_reason(error)}") from error


def _difference(
    runtime: Runtime, answer: Answer, inputs: Mapping[str, np.ndarray], expected: np.ndarray
) -> float:
    """The largest difference from the model's logits, relative to their largest if above 1."""
    try:
        got = answer(inputs)[OUTPUT]
    except Exception as error:  # every runtime raises its own errors
        raise UserError(f"{runtime.name} cannot run this model: {_reason(error)}") from error
    shapes = {key: value.shape for key, value in inputs.items()}
    if got.shape != expected.shape:
        raise UserError(
            f"not exported: for inputs of shapes {shapes}, {runtime.name} returns {OUTPUT} "
            f"of shape {got.shape}, but the model returns {expected.shape}"
        )
    difference = float(np.max(np.abs(got - expected)) / max(1.0, float(np.max(np.abs(expected)))))
    if not difference <= _ROUNDING:  # NaN too
        raise UserError(
            f"not exported: for inputs of shapes {shapes}, {runtime.name} returns {OUTPUT} that "
            f"differ by {difference:.2g} from the model's (at most {_ROUNDING:g} is accepted)"
        )
    return difference


def _reason(error: Exception) -> str:
    """The first sentence of an error message, cut to 300 characters."""
    words = " ".join(str(error).split()) or type(error).__name__
    return words.partition(". ")[0][:300]


def _example_ids(signature: ServingSignature, text: str) -> dict[str, np.ndarray]:
    """The example's token ids by argument name, (ids,); several texts are concatenated."""
    columns = zip(signature.input_signature, signature.columns(text), strict=True)
    return {
        spec.name: signature.tokenize(
            tf.reshape(tf.constant(column, tf.string), (-1,))
        ).flat_values.numpy()
        for spec, column in columns
    }


def _batches(names: list[str], known: np.ndarray) -> Iterator[dict[str, np.ndarray]]:
    """Random ids by input name; with several rows, the second is half padding, the last all."""
    generator = np.random.default_rng(0)
    for rows, length in _SHAPES:
        batch = {}
        for place, name in enumerate(names):
            ids = generator.choice(known, (rows, length + place)).astype("int32")
            if rows > 1:
                ids[1, (length + place) // 2 :] = 0
                ids[-1] = 0
            batch[name] = ids
        yield batch
