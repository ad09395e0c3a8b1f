"""The callback that saves the metrics and the training state at every checkpoint."""

import contextlib
import math
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.tasks import TrainingSettings
from keras_quasiattn.lab.training.checkpoints import Checkpoints
from keras_quasiattn.lab.training.run_folder import RunFolder
from keras_quasiattn.lab.training.selection import is_over, selected_step


class CheckpointCallback(keras.callbacks.Callback):
    """Write the history, then the checkpoint, then the curves, at the end of each Keras epoch.

    An epoch has the updates between two checkpoints; the first one is `start`. The checkpoint is
    authoritative: the next start drops rows of the history beyond it. Nothing is therefore lost or
    duplicated, even if the process ends between two writes. Only one of several workers `writes`.
    A loss that is not finite is an error; the last checkpoint stays.
    """

    def __init__(
        self,
        folder: RunFolder,
        checkpoints: Checkpoints,
        start: int,
        settings: TrainingSettings,
        writes: bool = True,
    ) -> None:
        super().__init__()
        self.folder = folder
        self.checkpoints = checkpoints
        self.settings = settings
        self.writes = writes
        self.rows = [row for row in folder.history() if row["step"] <= start]

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Write the curves of the history so far."""
        self.curves = Curves(self.folder.tensorboard, self.rows) if self.writes else None

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Start the timer."""
        self.started = time.monotonic()
        before = epoch * self.settings.checkpoint_every
        self._last_batch = min(self.settings.steps - before, self.settings.checkpoint_every) - 1

    # Not the end of a batch: Keras would wait for the values of every step.
    def on_train_batch_begin(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """End the last epoch at this batch if it is shorter than the others."""
        if batch == self._last_batch and batch + 1 < self.settings.checkpoint_every:
            self.model.stop_training = True

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Save the metrics and the training state."""
        step = min((epoch + 1) * self.settings.checkpoint_every, self.settings.steps)
        row: dict[str, Any] = {
            "step": step,
            **{name: float(value) for name, value in (logs or {}).items()},
        }
        if not math.isfinite(row["loss"]):
            raise UserError(
                f"the loss is {row['loss']} in the updates up to {step}: "
                f"train in a new folder with a lower training.learning_rate or the policy float32"
            )
        row["learning_rate"] = float(self.model.optimizer.learning_rate)
        row["seconds"] = round(time.monotonic() - self.started, 3)
        self.rows.append(row)
        if self.curves is not None:
            self.folder.write_history(self.rows)
            selected = selected_step(self.rows, self.settings)
            since = epoch * self.settings.checkpoint_every
            self.checkpoints.save(step, self.model, self.model.optimizer, selected, since)
            self.curves.add(row)
        if is_over(self.rows, self.settings):  # another callback may have stopped training already
            self.model.stop_training = True

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        """Close the curves."""
        if self.curves is not None:
            self.curves.close()


class Curves:
    """Write the history for TensorBoard by update, with training and validation as two runs.

    Earlier files are removed and the rows so far written again, so no row is missing or duplicated
    after a kill.
    """

    def __init__(self, folder: Path, rows: Iterable[Mapping[str, Any]]) -> None:
        self._folder = folder
        self._writers: dict[str, Any] = {}
        with self._writing():
            for name in ("training", "validation"):
                shutil.rmtree(folder / name, ignore_errors=True)
                self._writers[name] = tf.summary.create_file_writer(str(folder / name))
        for row in rows:
            self.add(row)

    def add(self, row: Mapping[str, Any]) -> None:
        """Write the values of one row at its `step`."""
        with self._writing():
            for name, value in row.items():
                own = name.removeprefix("val_")
                if name != "step":
                    with self._writers["training" if own == name else "validation"].as_default():
                        tf.summary.scalar(own, value, step=row["step"])
            for writer in self._writers.values():
                writer.flush()

    def close(self) -> None:
        """Close the event files."""
        with self._writing():
            for writer in self._writers.values():
                writer.close()

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except tf.errors.OpError as error:
            reason = error.message.strip().splitlines()[0].rpartition("}} ")[2]
            raise UserError(f"cannot write {self._folder}: {reason}") from error
