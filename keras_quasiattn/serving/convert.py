"""From a finished run to a file for ONNX Runtime, LiteRT or OpenVINO."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from keras_quasiattn.errors import UserError
from keras_quasiattn.serving.about import write_about
from keras_quasiattn.serving.quantization import Quantized
from keras_quasiattn.serving.runtimes import Answer, Runtime, need_runtime
from keras_quasiattn.serving.version_folder import new_version
from keras_quasiattn.tasks import ServingSignature, Task
from keras_quasiattn.training import RunFolder
from keras_quasiattn.training.files import appearing

OUTPUT: Final = "logits"
# Of the largest number of an answer, or of 1.
_ROUNDING = 1e-4
# Rows and length of the batches that are compared; the first input has this length, each further one is one longer.
_SHAPES = ((1, 1), (1, 7), (3, 5), (3, 13))


class Conversion(NamedTuple):
    """A version's folder, and how far its answers are from the model's own."""

    path: Path
    runtime: str
    difference: float
    batches: int

    def line(self) -> str:
        """The comparison in words."""
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
    """Write a finished run's model for another runtime, to `target/name-runtime/version/`.

    The file holds the Keras model itself: ids of tokens, int32 (batch, length), by the names of the model's inputs
    (`ids`; `first` and `second`; `source` and `target`), to `logits`. Id 0 is padding, behind the text, and changes
    nothing. The text handling stays outside, since strings cannot enter; so does the search for an answer of several
    tokens. Beside the file lie `about.json`, with the ids of the task's example, and the task's vocabulary.

    The runtime itself loads the file and is asked batches of one and several rows, of several lengths, padding and a
    row with nothing in it among them. The folder appears only when it has answered as the model does.

    Args:
        folder: the finished run.
        task: the run's task, `folder.task(data_dir)`.
        target: folder of all exported models; made if it is missing.
        runtime: "onnx", "litert" or "openvino".
        name: name of the model, to which the runtime's is added; default the name of the run folder.
        version: positive number of the version; default one more than the highest there is.
        quantized: what to write in place of the run's own model.

    Raises:
        UserError: the run is not finished; the runtime is unknown, not installed, or cannot run such a model; the
            name or version does not suit; the version is there already; the folder cannot be written; or the runtime
            answers with other numbers.

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
    with appearing(final) as temporary:
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
    """The model's own answers."""
    specs = {tensor.name: tf.TensorSpec((None, None), tf.int32) for tensor in model.inputs}

    @tf.function(input_signature=[specs])
    def answer(inputs: dict[str, tf.Tensor]) -> tf.Tensor:
        (alone, *others) = inputs.values()
        return model(inputs if others else alone, training=False)[OUTPUT]

    return [
        answer({key: tf.constant(value) for key, value in inputs.items()}).numpy()
        for inputs in batches
    ]


def _written(runtime: Runtime, model: keras.Model, file: Path) -> Answer:
    """What answers from the file, once it is written."""
    try:
        runtime.write(model, file)
        return runtime.load(file)
    except OSError:
        raise
    except Exception as error:  # every converter has errors of its own
        raise UserError(f"{runtime.name} cannot take this model: {_reason(error)}") from error


def _difference(
    runtime: Runtime, answer: Answer, inputs: Mapping[str, np.ndarray], expected: np.ndarray
) -> float:
    """The largest difference between the runtime's numbers and the model's, relative where they are above 1."""
    try:
        got = answer(inputs)[OUTPUT]
    except Exception as error:  # every runtime has errors of its own
        raise UserError(f"{runtime.name} cannot run this model: {_reason(error)}") from error
    shapes = {key: value.shape for key, value in inputs.items()}
    if got.shape != expected.shape:
        raise UserError(
            f"{runtime.name} answers {shapes} with {OUTPUT} of shape {got.shape}, and the model itself with "
            f"{expected.shape}: not exported"
        )
    difference = float(np.max(np.abs(got - expected)) / max(1.0, float(np.max(np.abs(expected)))))
    if not difference <= _ROUNDING:  # NaN too
        raise UserError(
            f"{runtime.name} answers {shapes} with {OUTPUT} that are {difference:.2g} from the model's own: "
            f"not exported"
        )
    return difference


def _reason(error: Exception) -> str:
    """The first sentence of what a converter says."""
    words = " ".join(str(error).split()) or type(error).__name__
    return words.partition(". ")[0][:300]


def _example_ids(signature: ServingSignature, text: str) -> dict[str, np.ndarray]:
    """The ids of the example's texts by the argument's name: those of several texts one after the other."""
    columns = zip(signature.input_signature, signature.columns(text), strict=True)
    return {
        spec.name: signature.tokenize(
            tf.reshape(tf.constant(column, tf.string), (-1,))
        ).flat_values.numpy()
        for spec, column in columns
    }


def _batches(names: list[str], known: np.ndarray) -> Iterator[dict[str, np.ndarray]]:
    """Ids by the inputs' names: of several rows the second ends halfway, and the last is all padding."""
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
