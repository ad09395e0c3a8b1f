"""Export a finished run: a SavedModel for servers, or files for other runtimes."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from keras_quasiattn.attention.base import Attention
from keras_quasiattn.attention.gated import gates_uncounted
from keras_quasiattn.errors import FileError, UserError, first_line
from keras_quasiattn.files import atomic_folder
from keras_quasiattn.lab.serving.description import write_description
from keras_quasiattn.lab.serving.quantize import Quantized
from keras_quasiattn.lab.serving.signatures import (
    TOKEN_IDS,
    bucket_inputs,
    example_inputs,
    signature_functions,
)
from keras_quasiattn.lab.tasks import ServingSignature, Task
from keras_quasiattn.lab.tasks.batches import plain
from keras_quasiattn.lab.training import RunFolder
from keras_quasiattn.serving.runtimes import convert_model, need_runtime
from keras_quasiattn.serving.server_files import ABOUT, add_model, new_version, read_models
from keras_quasiattn.serving.warm_up import RecordedRequest, need_serving_api, write_warm_up
from keras_quasiattn.serving.xla_buckets import Buckets, CompiledModel

_ROUNDING = 1e-3  # largest accepted difference between two numbers of an answer
# The same in 16 bits: four steps between numbers near 1.
_ROUNDING_OF = {"float16": 4 * 2.0**-10, "bfloat16": 4 * 2.0**-7}
# (rows, length) of the batches to compare; each further input of a model is one position longer.
_SHAPES = ((1, 1), (1, 7), (3, 5), (3, 13))


def export(
    folder: RunFolder,
    task: Task,
    target: str | Path,
    *,
    name: str | None = None,
    version: int | None = None,
    quantized: Quantized | None = None,
    compiled: bool = False,
) -> Path:
    """Export a finished run to `target/name/version/`, and list it in `target/models.config`.

    The SavedModel has two signatures, `serving_default` (strings) and `token_ids`, which return
    dictionaries. The text processing is part of the graph. A process that loads it needs tensorflow
    and the kernels of tensorflow-text, but neither Keras nor this package. `assets.extra` holds
    warm-up requests with their answers, the vocabulary and a description; `README.md` is the model
    card. `load` loads the version in Python.

    The version gets its final name, which a server may be watching, only if it was loaded again and
    gave the same answer to the task's example as the original.

    Args:
        folder: the finished run.
        task: the run's task, `folder.task(data_dir)`.
        target: folder of all exported models; created if missing.
        name: name of the model. Defaults to the run folder's name.
        version: positive version number. Defaults to one more than the highest existing one.
        quantized: the quantized model to export instead of the run's own.
        compiled: whether XLA compiles the model, but not text processing, where it is loaded, once
            for each of a few lengths and batch sizes, before the server answers. For CPUs, where a
            server needs `--xla_cpu_compilation_enabled=true`, and for models that answer in one
            call (classify, pairs, rank). Defaults to False.

    Raises:
        UserError: the run is not finished; the name or version is invalid, or exists; the folder
            cannot be written; the exported model answers differently; a model to compile needs more
            than one call; the TensorFlow Serving API is missing; or `models.config` is damaged.

    ```python
    folder = RunFolder.open("runs/mlu-coda", finished=True)
    export(folder, folder.task("data"), "saved_models")
    ```
    """
    name = folder.path.resolve().name if name is None else name
    final = new_version(target, name, version)
    need_serving_api()
    read_models(Path(target))
    model = quantized.model if quantized else folder.load_model(task)
    signature = written = task.serving_signature(model)
    expected = _answer(task, model)
    about: dict[str, Any] = {}
    used = {layer.compute_dtype for layer in model._flatten_layers()}
    rounding = max(_ROUNDING_OF.get(one, _ROUNDING) for one in used)
    if rounding > _ROUNDING:
        about["rounding"] = rounding
    if not compiled and (notes := _notes(model)):
        about["notes"] = notes
    if compiled:
        if signature.longest is None:
            raise UserError(
                f"a model of the task {task.name!r} cannot be exported compiled, because it "
                "answers in more than one call: export it without compiling"
            )
        buckets = Buckets.up_to(signature.longest)
        about["compiled"] = buckets._asdict()
        written = task.serving_signature(CompiledModel(model, buckets))
    try:
        with atomic_folder(final) as temporary:
            loaded = _write(written, model, temporary)
            records = _ask(loaded, written, task.example)
            _check(task, expected, records)
            if compiled:
                records += _ask_compiled(loaded, signature, task.example, buckets, rounding)
            write_warm_up(temporary, name, records)
            write_description(folder, task, temporary, temporary / ABOUT, quantized, **about)
    except tf.errors.OpError as error:  # a full disk, for example
        # Before and after the reason are the names of a kernel, of a temporary file and of an op.
        reason = first_line(error).rpartition("; ")[2].partition(" [Op:")[0]
        raise FileError(f"cannot write {final}: {reason}") from error
    add_model(Path(target), name)
    return final


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

    The other arguments and errors are as for `export`.

    Args:
        runtime: "onnx", "litert" or "openvino"; `-runtime` is added to the name of the model.

    Returns:
        The folder of the version, and the result of the comparison.

    Raises:
        UserError: the runtime is unknown, not installed or cannot run this model, or its answers
            differ.

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
    if not signature.own_ids:
        raise UserError(
            f"a model of the task {task.name!r} cannot be converted for {chosen.name}, because it "
            "needs more than token ids: export a SavedModel"
        )
    _answer(task, model)
    names = [tensor.name for tensor in model.inputs]
    if signature.model_ids is not None:
        arrays = signature.model_ids(task.example)
    else:  # of a list of texts, the first
        ids = example_inputs(signature, task.example)[TOKEN_IDS]
        texts = [ids[f"{spec.name}_ids"] for spec in signature.input_signature]
        firsts = [text.reshape(-1, text.shape[-1])[0] for text in texts]
        arrays = dict(zip(names, firsts, strict=True))
    example = {name: array[array != 0] for name, array in arrays.items()}  # (ids,)
    known = np.unique(np.concatenate(list(example.values())))
    batches = list(_batches(names, known))
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


def _notes(model: keras.Model) -> list[str]:
    """Return the `export_note` of each attention in a model, without repetitions."""
    layers = model._flatten_layers()  # Keras has no public way to list layers in layers
    parts = (one for layer in layers for one in vars(layer).values() if isinstance(one, Attention))
    return sorted({one.export_note for one in parts if one.export_note})


def _write(signature: ServingSignature, model: keras.Model, path: Path) -> Any:
    """Write the SavedModel and load it again."""
    # Not Keras' ExportArchive: it writes every weight twice.
    module = tf.Module()
    module.answers = signature_functions(signature)
    module.weights = [variable.value for variable in model.variables]
    module.resources = signature.resources
    with gates_uncounted():  # `save` traces the functions once more
        signatures = {name: one.get_concrete_function() for name, one in module.answers.items()}
        tf.saved_model.save(module, str(path), signatures=signatures)
    return tf.saved_model.load(str(path))


def _ask(loaded: Any, signature: ServingSignature, example: str) -> list[RecordedRequest]:
    """Send the example to the exported model, alone and with an empty row; record the answers."""
    records = []
    for name, alone in example_inputs(signature, example).items():
        # (1, ...) and an empty row make (2, ...).
        padded = {
            key: np.concatenate([value, np.full_like(value, b"" if value.dtype == object else 0)])
            for key, value in alone.items()
        }
        for inputs in (alone, padded):
            asked = {key: tf.constant(value) for key, value in inputs.items()}
            answer = {key: value.numpy() for key, value in loaded.signatures[name](**asked).items()}
            records.append(RecordedRequest(name, inputs, answer))
    return records


def _ask_compiled(
    loaded: Any, signature: ServingSignature, example: str, buckets: Buckets, rounding: float
) -> list[RecordedRequest]:
    """Call the exported model for every bucket; compare its numbers with the uncompiled model's."""
    asked, uncompiled = loaded.signatures[TOKEN_IDS], signature_functions(signature)[TOKEN_IDS]
    records = []
    for inputs in bucket_inputs(signature, example, buckets):
        tensors = {key: tf.constant(value) for key, value in inputs.items()}
        answer, expected = asked(**tensors), uncompiled(*tensors.values())
        for key, value in answer.items():
            if value.dtype.is_floating and not np.allclose(value, expected[key], atol=rounding):
                shapes = {name: array.shape for name, array in inputs.items()}
                raise UserError(
                    f"not exported: compiled for inputs of shapes {shapes}, the model returns "
                    f"different numbers as {key}"
                )
        small = {key: value.numpy() for key, value in answer.items() if len(value.shape) <= 2}
        records.append(RecordedRequest(TOKEN_IDS, inputs, small))
    return records


def _answer(task: Task, model: keras.Model) -> dict[str, Any]:
    """Return the model's own answer to the example; refuse a model that draws it at random."""

    def states() -> list[np.ndarray]:
        return list(map(keras.ops.convert_to_numpy, model.non_trainable_variables))

    before, answer = states(), task.answer(model, [task.example])[0]
    if not all(map(np.array_equal, before, states())):
        raise UserError(
            "not exported: the model draws random numbers when it answers, so its answers cannot "
            "be checked: train it without, such as with model.gate_inference=threshold"
        )
    return answer


def _check(task: Task, expected: Mapping[str, Any], records: list[RecordedRequest]) -> None:
    """Check that every recorded answer to the example equals the original model's."""
    for record in records:
        for key, value in record.answer.items():
            got = plain(value[0])
            if not _alike(got, expected[key]):
                raise UserError(
                    f"not exported: for {task.example!r} the exported model returns {key} {got!r}, "
                    f"but the model itself returns {expected[key]!r}"
                )


def _alike(got: Any, expected: Any) -> bool:
    if isinstance(expected, list):
        return len(got) == len(expected) and all(map(_alike, got, expected))
    if isinstance(expected, str):
        return got == expected
    return bool(abs(float(got) - float(expected)) < _ROUNDING)
