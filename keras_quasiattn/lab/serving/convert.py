"""Convert a finished run for ONNX Runtime, LiteRT or OpenVINO."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from keras_quasiattn.files import atomic_folder
from keras_quasiattn.lab.serving.description import write_description
from keras_quasiattn.lab.serving.quantize import Quantized
from keras_quasiattn.lab.serving.signatures import TOKEN_IDS, example_inputs
from keras_quasiattn.lab.tasks import Task
from keras_quasiattn.lab.training import RunFolder
from keras_quasiattn.serving.runtimes import convert_model, need_runtime
from keras_quasiattn.serving.server_files import ABOUT, new_version

# (rows, length) of the batches to compare; each further input of a model is one position longer.
_SHAPES = ((1, 1), (1, 7), (3, 5), (3, 13))


class Conversion(NamedTuple):
    """A converted version, and how much the runtime's answers differ from the model's."""

    path: Path
    runtime: str
    difference: float
    batches: int

    def line(self) -> str:
        """Return the comparison as a sentence."""
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
    `logits`. Id 0 is padding at the end of a text and has no effect. Text processing is left to the
    caller, because the runtimes take no strings, and so is the search for answers of several
    tokens. The task's vocabulary and `about.json`, with the ids of the task's example, are written
    to the same folder.

    The folder gets its final name only if the runtime, which loads the file and answers batches of
    several sizes with padding and with an empty row, answers like the model.

    Args:
        folder: the finished run.
        task: the run's task, `folder.task(data_dir)`.
        target: folder of all exported models; created if missing.
        runtime: "onnx", "litert" or "openvino".
        name: name of the model, to which `-runtime` is added. Defaults to the run folder's name.
        version: positive version number. Defaults to one more than the highest existing one.
        quantized: the quantized model to convert instead of the run's own.

    Returns:
        The folder of the version, and the result of the comparison.

    Raises:
        UserError: the run is not finished; the runtime is unknown, not installed or cannot run this
            model, or its answers differ; the name or version is invalid, or exists; or the folder
            cannot be written.

    ```python
    folder = RunFolder.open("runs/snli", finished=True)
    print(convert(folder, folder.task("data"), "saved_models", "onnx").line())
    ```
    """
    chosen = need_runtime(runtime)
    name = folder.path.resolve().name if name is None else name
    final = new_version(target, f"{name}-{runtime}", version)
    model = quantized.model if quantized else folder.load_model(task)
    signature = task.serving_signature(model)
    ids = example_inputs(signature, task.example)[TOKEN_IDS]
    arrays = {spec.name: ids[f"{spec.name}_ids"] for spec in signature.input_signature}
    if signature.model_ids is not None:
        arrays = signature.model_ids(task.example)
    example = {name: array[array != 0] for name, array in arrays.items()}  # (ids,), all texts
    known = np.unique(np.concatenate(list(example.values())))
    batches = list(_batches([tensor.name for tensor in model.inputs], known))
    with atomic_folder(final) as temporary:
        temporary.mkdir()
        difference = convert_model(model, chosen, temporary, batches)
        listed = {name: array.tolist() for name, array in example.items()}
        file = temporary / ABOUT.name
        write_description(folder, task, temporary, file, quantized, example_ids=listed)
    return Conversion(final, chosen.name, difference, len(batches))


def _batches(names: list[str], known: np.ndarray) -> Iterator[dict[str, np.ndarray]]:
    """Draw ids by input name; with several rows, half the second and all the last are padding."""
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
