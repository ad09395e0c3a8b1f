"""Load an exported model by its name or folder, and call it from Python."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

from keras_quasiattn.errors import UserError, first_line
from keras_quasiattn.files import MANIFEST, check_hashes, read_json
from keras_quasiattn.lab.tasks.batches import as_bytes, unpadded
from keras_quasiattn.lab.tasks.pairs import split_input
from keras_quasiattn.serving.server_files import ABOUT, highest_version


def load(model: str | Path, folder: str | Path = "saved_models") -> "ExportedModel":
    """Load an exported model; called with a list of strings, it returns their answers.

    Args:
        model: name of a model in `folder`, or the path of a model or of one of its versions. The
            highest of several versions is loaded.
        folder: folder of exported models, as for `export`. Defaults to "saved_models".

    Raises:
        UserError: there is no such model (the message lists the models in `folder`), the model does
            not load, or a file differs from its hash in the manifest.

    ```python
    model = load("trec")  # in the folder of the repository: saved_models/trec/1
    model(["What is the capital of Yugoslavia ?"])[0]["label"]
    ```
    """
    for place in (Path(model), Path(folder) / model):
        version = highest_version(place)
        if version is not None:
            return ExportedModel(version)
    entries = sorted(Path(folder).iterdir()) if Path(folder).is_dir() else []
    known = [entry.name for entry in entries if highest_version(entry) is not None]
    raise UserError.unknown(f"exported model (in the folder {folder})", str(model), known)


class ExportedModel:
    """An exported model that takes strings; `load` returns it.

    Attributes:
        path: the folder of its version, with `saved_model.pb`.
        about: its description: task, options, data, metrics and an example; {} if it has none.
    """

    def __init__(self, path: Path) -> None:
        import tensorflow_text  # noqa: F401  # registers its kernels

        self.path = path
        check_hashes((path / ABOUT).with_name(MANIFEST), path)
        try:
            self._signature = tf.saved_model.load(str(path)).signatures["serving_default"]
        except (OSError, KeyError, tf.errors.OpError) as error:
            raise UserError(f"{path} does not load: {first_line(error)}") from error
        self.about = read_json(path / ABOUT)

    def __call__(self, inputs: Sequence[str]) -> list[dict[str, Any]]:
        """Return one answer per input, as plain Python values.

        Tabs separate the texts of one input. Tokens, weights and gates end with the text; the other
        outputs are those of the signature `serving_default`.
        """
        if isinstance(inputs, str):
            raise UserError(f"inputs must be a list of strings: got the string {inputs!r}")
        return [self._answer(text) for text in inputs]

    def _answer(self, text: str) -> dict[str, Any]:
        specs = self._signature.structured_input_signature[1]
        # An argument that is a list of texts, such as a ranker's candidates, comes last.
        names = sorted(specs, key=lambda name: (len(specs[name].shape), name))
        listed = len(specs[names[-1]].shape) == 2
        columns = as_bytes(split_input(text, names, more=listed)).tolist()
        alone = len(names) - listed
        parts: list[Any] = [*columns[:alone], columns[alone:]] if listed else columns
        given = {name: tf.constant([part]) for name, part in zip(names, parts, strict=True)}
        row = {name: value.numpy()[0] for name, value in self._signature(**given).items()}
        return {"input": text, **unpadded(row)}
