"""The history of a run as TensorBoard curves."""

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf


class Curves:
    """Writes rows of the history for TensorBoard: training and validation as two runs, by step.

    It begins from nothing with the rows so far, so that after a kill the curves miss no row and double none.

    Args:
        folder: where the event files go; what lies there is removed.
        rows: the history so far.
    """

    def __init__(self, folder: Path, rows: Iterable[Mapping[str, Any]]) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        self._training = tf.summary.create_file_writer(str(folder / "training"))
        self._validation = tf.summary.create_file_writer(str(folder / "validation"))
        for row in rows:
            self.add(row)

    def add(self, row: Mapping[str, Any]) -> None:
        """Draw one row's values at its step."""
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
        self._training.close()
        self._validation.close()
