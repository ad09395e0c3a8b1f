"""Answers of an exported model, with the attention weights that it returns."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from keras_quasiattn.errors import UserError
from keras_quasiattn.tasks.pair_task import split_input
from keras_quasiattn.tasks.vocabulary_task import plain


class SavedAnswers:
    """An exported model: strings in, answers out, with its tokens, `weights` and `gates` if any.

    Args:
        path: the folder of a version, with `saved_model.pb`.

    Raises:
        UserError: the folder has none, or it does not load.
    """

    def __init__(self, path: Path) -> None:
        import tensorflow_text  # noqa: F401  # registers its kernels

        self.path = path
        try:
            self._signature = tf.saved_model.load(str(path)).signatures["serving_default"]
        except (OSError, KeyError, tf.errors.OpError) as error:
            raise UserError(f"{path} does not load: {str(error).splitlines()[0]}") from error
        try:
            about = path / "assets.extra" / "about.json"
            self.about: dict[str, Any] = json.loads(about.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            self.about = {}

    def predict(self, inputs: Sequence[str]) -> list[dict[str, Any]]:
        """One answer per input; the texts of an input are separated by tabs.

        Raises:
            UserError: an input has more or fewer texts than the model takes.
        """
        return [self._answer(text) for text in inputs]

    def _answer(self, text: str) -> dict[str, Any]:
        specs = self._signature.structured_input_signature[1]
        # An argument that is a list of texts, such as a ranker's candidates, comes last.
        names = sorted(specs, key=lambda name: (len(specs[name].shape), name))
        listed = len(specs[names[-1]].shape) == 2
        columns = [
            column.encode("utf-8", "surrogateescape")
            for column in split_input(text, names, more=listed)
        ]
        alone = len(names) - listed
        parts: list[Any] = [*columns[:alone], columns[alone:]] if listed else columns
        given = {name: tf.constant([part]) for name, part in zip(names, parts, strict=True)}
        row = {name: value.numpy()[0] for name, value in self._signature(**given).items()}
        return {"input": text, **{name: _readable(row, name) for name in row}}


def _readable(row: dict[str, Any], name: str) -> Any:
    """A value as plain data; per-token values lose the padding behind the last token."""
    empty = isinstance(row.get("tokens"), np.ndarray) and name in ("tokens", "weights", "gates")
    value = row[name]
    if empty:
        value = value[: int(np.sum(row["tokens"] != b""))]
    return plain(value)
