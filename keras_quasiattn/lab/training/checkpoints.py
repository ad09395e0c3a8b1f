"""Checkpoints of the whole training state, one file each."""

import re
import zipfile
from collections.abc import Sequence
from pathlib import Path

import keras
import numpy as np

from keras_quasiattn.errors import UserError
from keras_quasiattn.files import atomic_file

_GROUPS = ("trainable", "state", "optimizer")
_NAME = re.compile(r"step-(\d+)\.npz")


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
        optimizer: keras.optimizers.Optimizer,
        selected: int | None = None,
        since: int | None = None,
    ) -> None:
        """Write a checkpoint, then remove the oldest beyond `keep`.

        The checkpoint `selected`, which would become the finished model, stays. Checkpoints between
        `since`, the one before this, and this one were written when the run ended at an earlier
        update, and are removed.
        """
        arrays = {
            f"{group}/{number}": variable.numpy()
            for group, variables in _groups(model, optimizer).items()
            for number, variable in enumerate(variables)
        }
        with atomic_file(self.file(step)) as temporary, open(temporary, "wb") as stream:
            np.savez(stream, **arrays)
        for stale in self.steps():
            if since is not None and since < stale < step:
                self.file(stale).unlink()
        for old in self.steps()[: -self.keep]:
            if old != selected:
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
        """Return the last update with a readable checkpoint (or 0), and the damaged files after it.

        Only multiples of `every` are considered.
        """
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

    def restore(self, step: int, model: keras.Model, optimizer: keras.optimizers.Optimizer) -> None:
        """Restore the model and its built optimizer to their state after `step` updates."""
        for group, variables in _groups(model, optimizer).items():
            assign(variables, self.read(step, group), self.file(step))


def average(checkpoints: Checkpoints, steps: Sequence[int]) -> list[np.ndarray]:
    """Average the trainable weights of the checkpoints after some numbers of updates.

    The sums are float64. Apart from them and the first checkpoint, only one checkpoint is in memory
    at a time.

    Source: Vaswani et al. 2017, section 6.1, and Tensor2Tensor's `t2t-avg-all`.
    """
    first = checkpoints.read(steps[0], "trainable")
    sums = [array.astype(np.float64) for array in first]
    for step in steps[1:]:
        for total, array in zip(sums, checkpoints.read(step, "trainable"), strict=True):
            total += array
    return [
        (total / len(steps)).astype(array.dtype) for total, array in zip(sums, first, strict=True)
    ]


def assign(variables: list[keras.Variable], arrays: list[np.ndarray], source: Path) -> None:
    """Assign the arrays of the checkpoint in a file to variables of the same shapes."""
    if [tuple(variable.shape) for variable in variables] != [array.shape for array in arrays]:
        raise UserError(
            f"{source} does not fit the model: it was written by a different version of the model"
        )
    for variable, array in zip(variables, arrays, strict=True):
        variable.assign(array)


def _groups(
    model: keras.Model, optimizer: keras.optimizers.Optimizer
) -> dict[str, list[keras.Variable]]:
    variables = (model.trainable_variables, model.non_trainable_variables, optimizer.variables)
    return dict(zip(_GROUPS, variables, strict=True))
