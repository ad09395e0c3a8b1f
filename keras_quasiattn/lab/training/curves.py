"""The history of a run as TensorBoard curves."""

import contextlib
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf

from keras_quasiattn.errors import UserError


class Curves:
    """Write the history for TensorBoard by update, with training and validation as two runs.

    It rewrites the rows so far, so no row is missing or duplicated after a kill.

    Args:
        folder: folder of the event files; earlier ones are removed.
        rows: the history so far.

    Raises:
        UserError: the folder cannot be written.
    """

    def __init__(self, folder: Path, rows: Iterable[Mapping[str, Any]]) -> None:
        self._folder = folder
        with self._writing():
            self._training, self._validation = map(self._writer, ("training", "validation"))
        for row in rows:
            self.add(row)

    def _writer(self, name: str) -> Any:
        shutil.rmtree(self._folder / name, ignore_errors=True)
        return tf.summary.create_file_writer(str(self._folder / name))

    def add(self, row: Mapping[str, Any]) -> None:
        """Write the values of one row at its `step`."""
        with self._writing():
            for name, value in row.items():
                if name == "step":
                    continue
                writer = self._validation if name.startswith("val_") else self._training
                with writer.as_default():
                    tf.summary.scalar(name.removeprefix("val_"), value, step=row["step"])
            self._training.flush()
            self._validation.flush()

    def close(self) -> None:
        """Close the event files."""
        with self._writing():
            self._training.close()
            self._validation.close()

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except tf.errors.OpError as error:
            reason = error.message.strip().splitlines()[0].rpartition("}} ")[2]
            raise UserError(f"cannot write {self._folder}: {reason}") from error
