"""Checkpoints of the whole training state, which of them becomes the model, and their callback."""

import contextlib
import math
import re
import shutil
import time
import zipfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_quasiattn.errors import FileError, UserError, first_line
from keras_quasiattn.files import atomic_file
from keras_quasiattn.lab.tasks import TrainingSettings
from keras_quasiattn.lab.training.run_folder import RunFolder

_SMALLEST = ("loss", "perplexity")
Rows = Sequence[Mapping[str, Any]]
_GROUPS = ("trainable", "state", "optimizer")
_NAME = re.compile(r"step-(\d+)\.npz")


def judged_by(settings: TrainingSettings) -> tuple[str, str]:
    """Return the validation metric that ranks checkpoints, and whether "min" or "max" is best."""
    name = "loss" if settings.select == "last" else settings.select
    return name, "min" if name in _SMALLEST else "max"


def candidates(rows: Rows) -> list[Mapping[str, Any]]:
    """Return the rows of the checkpoints that may become the finished model, in order.

    While a callback blends one attention into another, `blend` is below 1, and the model is not yet
    the finished one.
    """
    return [row for row in rows if row.get("blend", 1) == 1]


def selected_step(rows: Rows, settings: TrainingSettings) -> int | None:
    """Return the update whose checkpoint would become the finished model; the first on ties.

    A checkpoint whose validation metric is NaN, as in half precision, is selected only if there is
    no other.
    """
    possible = candidates(rows)
    if not possible:
        return None
    if settings.select == "last":
        return possible[-1]["step"]
    name, direction = judged_by(settings)
    best, figure = min if direction == "min" else max, f"val_{name}"
    measured = [row for row in possible if not math.isnan(row[figure])]  # NaN ranks last
    return best(measured or possible, key=lambda row: row[figure])["step"]


def required_step(rows: Rows, settings: TrainingSettings, path: Path) -> int:
    """Return the update whose checkpoint becomes the model; a `UserError` if there is none yet."""
    if (step := selected_step(rows, settings)) is not None:
        return step
    reason = f": its attention is still moving (blend {rows[-1]['blend']:g})" if rows else ""
    raise UserError(f"{path} has no checkpoint yet to make a model from{reason}")


def is_over(rows: Rows, settings: TrainingSettings) -> bool:
    """Return whether training ends with the last row: all updates are done, or patience ran out."""
    if not rows:
        return False
    last = rows[-1]["step"]
    if settings.patience is None:
        return last >= settings.steps
    selected = selected_step(rows, settings)
    waited = 0 if selected is None else last - selected
    return last >= settings.steps or waited >= settings.patience * settings.checkpoint_every


def early_end(rows: Rows, settings: TrainingSettings) -> str:
    """Return a line that says why training ended early, or nothing if it did not."""
    last = rows[-1]["step"] if rows else 0
    if last >= settings.steps:
        return ""
    if not is_over(rows, settings):
        return f"Stopped by a callback: update {last:,} of {settings.steps:,}"
    best = f"no better {judged_by(settings)[0]} since update {selected_step(rows, settings):,}"
    return f"Stopped: {best}; update {last:,} of at most {settings.steps:,}"


class Checkpoints:
    """The last `keep` checkpoints in a run's folder, .npz files that are written atomically.

    A checkpoint holds everything that the next update depends on, in three groups: `trainable`
    weights; `state`, all other variables of the model, including the states of its seed generators
    (Keras' own `.keras` and `.weights.h5` files omit these, so dropout would continue with
    different noise); and `optimizer`, with its slots, its update count and the loss scale. The
    position in the data stream follows from the number of updates.
    """

    def __init__(self, folder: Path, keep: int) -> None:
        self.folder = folder
        self.keep = keep

    def steps(self) -> list[int]:
        """Return the numbers of updates that have a checkpoint, in ascending order."""
        matches = (_NAME.fullmatch(entry.name) for entry in self.folder.glob("*"))
        return sorted(int(match[1]) for match in matches if match)

    def file(self, step: int) -> Path:
        """Return the path of the checkpoint after `step` updates."""
        return self.folder / f"step-{step:08d}.npz"

    def save(
        self,
        step: int,
        model: keras.Model,
        kept: Collection[int | None] = (),
        since: int | None = None,
    ) -> None:
        """Write a checkpoint, then remove the oldest beyond `keep`, except those in `kept`.

        Checkpoints between `since`, the one before this, and this one were written when the run
        ended at an earlier update, and are removed.
        """
        arrays = {
            f"{group}/{number}": variable.numpy()
            for group, variables in _groups(model).items()
            for number, variable in enumerate(variables)
        }
        with atomic_file(self.file(step)) as temporary, open(temporary, "wb") as stream:
            np.savez(stream, **arrays)
        for stale in self.steps():
            if since is not None and since < stale < step:
                self.file(stale).unlink()
        for old in self.steps()[: -self.keep]:
            if old not in kept:
                self.file(old).unlink()

    def read(self, step: int, group: str) -> list[np.ndarray]:
        """Read the arrays of one group of a checkpoint, in the order of the model's variables."""
        file = self.file(step)
        try:
            with open(file, "rb") as stream, np.load(stream) as arrays:
                count = sum(name.startswith(f"{group}/") for name in arrays.files)
                return [arrays[f"{group}/{number}"] for number in range(count)]
        except FileNotFoundError:
            raise UserError(
                f"the checkpoint {file} is missing: train again in a new folder"
            ) from None
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise UserError(f"{file} is damaged: train again in a new folder") from error

    def last_readable(self, every: int = 1) -> tuple[int, list[Path]]:
        """Return the last readable checkpoint's update, or 0, and the damaged files after it."""
        damaged = []
        for step in (one for one in reversed(self.steps()) if one % every == 0):
            try:
                for group in _GROUPS:
                    self.read(step, group)
            except UserError:
                damaged.append(self.file(step))
            else:
                return step, damaged
        return 0, damaged

    def restore(self, step: int, model: keras.Model) -> None:
        """Restore a model, and its built optimizer if it has one, to their state after `step`."""
        for group, variables in _groups(model).items():
            assign(variables, self.read(step, group), self.file(step))


def average(checkpoints: Checkpoints, steps: Sequence[int]) -> list[np.ndarray]:
    """Average, in float64, the trainable weights of the checkpoints after some updates.

    Source: Vaswani et al. 2017, section 6.1, and Tensor2Tensor's `t2t-avg-all`.
    """
    first = checkpoints.read(steps[0], "trainable")
    sums = [array.astype(np.float64) for array in first]
    for step in steps[1:]:
        for total, array in zip(sums, checkpoints.read(step, "trainable"), strict=True):
            total += array
    return [(x / len(steps)).astype(y.dtype) for x, y in zip(sums, first, strict=True)]


def assign(variables: list[keras.Variable], arrays: list[np.ndarray], source: Path) -> None:
    """Assign the arrays of the checkpoint in a file to variables of the same shapes."""
    if [tuple(variable.shape) for variable in variables] != [array.shape for array in arrays]:
        raise UserError(
            f"{source} does not fit the model: it was written by a different version of the model"
        )
    for variable, array in zip(variables, arrays, strict=True):
        variable.assign(array)


def _groups(model: keras.Model) -> dict[str, list[keras.Variable]]:
    groups = {"trainable": model.trainable_variables, "state": model.non_trainable_variables}
    optimizer = getattr(model, "optimizer", None)  # a model that is not compiled has none
    return groups if optimizer is None else {**groups, "optimizer": optimizer.variables}


class CheckpointCallback(keras.callbacks.Callback):
    """Write the history, then the checkpoint, then the curves, at the end of each Keras epoch.

    An epoch has the updates between two checkpoints. The next start drops rows of the history
    beyond the checkpoint, so nothing is lost or duplicated, even if the process ends between two
    writes. Only one of several workers `writes`. A loss that is not finite is an error.
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
        self.folder, self.checkpoints = folder, checkpoints
        self.settings, self.writes = settings, writes
        self.rows = [row for row in folder.history() if row["step"] <= start]

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Write the curves of the history so far."""
        self.curves = Curves(self.folder.tensorboard, self.rows) if self.writes else None

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Start the timer."""
        self.started = time.monotonic()
        self._done = epoch * self.settings.checkpoint_every

    # Not the end of a batch: Keras would wait for the values of every step.
    def on_train_batch_begin(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """Count the update, and end the last epoch at it if it is shorter than the others."""
        self._done += 1
        if self._done == self.settings.steps and self._done % self.settings.checkpoint_every:
            self.model.stop_training = True

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Save the metrics and the training state."""
        step = self._done  # another callback may have stopped training at any update
        figures = {name: float(value) for name, value in (logs or {}).items()}
        row: dict[str, Any] = {"step": step, **figures}
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
            # The best one before this, too: the run may go on from there, if this one is damaged or
            # lies between two checkpoints of a longer run.
            kept = {selected_step(rows, self.settings) for rows in (self.rows, self.rows[:-1])}
            since = epoch * self.settings.checkpoint_every
            self.checkpoints.save(step, self.model, kept, since)
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
            reason = first_line(error).rpartition("}} ")[2]
            raise FileError(f"cannot write {self._folder}: {reason}") from error
