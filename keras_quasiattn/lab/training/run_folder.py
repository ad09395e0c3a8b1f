"""The run folder, which training writes and everything after training reads."""

import contextlib
import json
import shlex
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from keras_quasiattn import files
from keras_quasiattn._version import __version__
from keras_quasiattn.errors import FileError, UserError, first_line
from keras_quasiattn.lab import tasks
from keras_quasiattn.lab.tasks import Task
from keras_quasiattn.lab.training.config import (
    CONFIG,
    FORMAT,
    flat,
    identity,
    part_name,
    read_config,
)

# The options that may change in an existing run.
LENGTH = ("training.steps", "training.passes")


class RunFolder:
    """A training run on disk, made by `create` or `open`.

    ```
    config.json       format, versions, task with all its options, precision, strategy, command line
    history.jsonl     one row per checkpoint: step, losses, metrics, learning rate, seconds
    attention.jsonl   one row per checkpoint: histograms of matrices, α, β, temperatures
    checkpoints/      the last checkpoints, each with the whole training state
    tensorboard/      the history as curves
    manifest.json     hashes of the files that belong together
    metrics.json      metrics of the finished model, by split
    vocabulary.txt …  what the task learned from its data and needs for its answers
    model.keras       the finished model (averaged, not compiled); written last
    ```

    Every file except TensorBoard's is written atomically.

    ```python
    folder = RunFolder.open("runs/mlu", finished=True)
    task = folder.task("data")
    task.predict(folder.load_model(), [task.example])
    ```
    """

    def __init__(self, path: Path, config: Mapping[str, Any]) -> None:
        self.path = path
        self.config = config
        self.model_file = path / "model.keras"
        self.checkpoints = path / "checkpoints"
        self.tensorboard = path / "tensorboard"
        self._history = path / "history.jsonl"

    @classmethod
    def prepare_empty(cls, path: str | Path) -> None:
        """Create the folder of a new run, or check that the existing folder is empty."""
        path = Path(path)
        try:
            path.mkdir(parents=True, exist_ok=True)
            names = (entry.name for entry in path.iterdir() if not files.is_temporary(entry))
            found = sorted(name for name in names if name != files.LOCK)
        except OSError as error:
            raise FileError(f"cannot create the run folder {path}: {error.strerror}") from error
        if CONFIG in found:
            raise UserError(f"{path} already holds a run: name a new folder")
        if found:
            raise UserError(
                f"{path} holds other files (such as {found[0]}) but no run: name a new folder"
            )

    @classmethod
    def create(
        cls,
        path: str | Path,
        task: Task,
        *,
        options: Mapping[str, Any],
        command: Sequence[str] = (),
    ) -> "RunFolder":
        """Start a run with these options of the trainer in a new or empty folder.

        Raises:
            UserError: the folder is not empty or cannot be written.
        """
        path = Path(path)
        cls.prepare_empty(path)
        config = {
            "format": FORMAT,
            "versions": {
                "keras_quasiattn": __version__,
                "keras": keras.__version__,
                "tensorflow": tf.__version__,
            },
            **identity(task, options),
            "data": task.describe_data(),
            "command": shlex.join(command),
        }
        files.write_json(path / CONFIG, config)
        return cls(path, config)

    @classmethod
    def open(cls, path: str | Path, *, finished: bool = False) -> "RunFolder":
        """Open the run in a folder; if `finished`, it must be, so that `load_model` works.

        Raises:
            UserError: the folder is missing, holds no run or a damaged one, has a newer format, or
                is not finished although it must be.
        """
        path = Path(path)
        folder = cls(path, read_config(path))
        if finished:
            folder.require_finished()
        return folder

    @classmethod
    def exists(cls, path: str | Path) -> bool:
        """Return whether the folder holds a run."""
        return (Path(path) / CONFIG).exists()

    @property
    def finished(self) -> bool:
        """Whether the finished model has been written."""
        return self.model_file.exists()

    @property
    def noted(self) -> dict[str, Any]:
        """The run's entry `data`, which every record of metrics repeats; empty without one."""
        return {"data": self.config["data"]} if self.config.get("data") else {}

    def require_finished(self) -> None:
        """Check that the run is finished; the error says how many updates are done."""
        if not self.finished:
            step = max((row["step"] for row in self.history()), default=0)
            passes = self.length["training.passes"]
            end = f"{passes} passes" if passes else self.steps or "unknown"
            raise UserError(
                f"{self.path} is not finished (update {step} of {end}): "
                f"run the train command again to continue, or end it: quasiattn finish {self.path}"
            )

    def require_same(self, task: Task, options: Mapping[str, Any]) -> None:
        """Check that the run was started with this task and options, except for its length."""
        # A run that was started before an option existed uses its default.
        defaults = task.presets[task.preset].for_model(task.model).options()
        begun = {**json.loads(json.dumps(defaults)), **flat(self.config)}
        asked = flat(json.loads(json.dumps(identity(task, options))))
        differences = [
            f"{name} {begun.get(name)!r}, not {asked.get(name)!r}"
            for name in sorted(begun.keys() | asked.keys())
            if begun.get(name) != asked.get(name) and name not in LENGTH
        ]
        if differences:
            raise UserError(
                f"{self.path} was started with {'; '.join(differences)}: "
                f"use the same options or a new folder"
            )

    def require_same_data(self, task: Task) -> None:
        """Check that a prepared task has the data that the run was started with."""
        former, found = self.noted.get("data"), task.describe_data()
        if former and former.get("version") != found.get("version"):
            raise UserError(
                f"{self.path} was started with the data {former.get('version')}, and they are now "
                f"{found.get('version')}: restore them or train in a new folder; "
                "`evaluate --data FILE` measures on others"
            )

    @property
    def steps(self) -> int | None:
        """The number of updates that was last requested for the run."""
        return self.config["task_config"]["options"].get("training.steps")

    @property
    def length(self) -> dict[str, int | None]:
        """The length that was last requested for the run, in updates and passes."""
        options = self.config["task_config"]["options"]
        return {name: options.get(name) for name in LENGTH}

    def write_config(self, config: Mapping[str, Any]) -> None:
        """Replace the config."""
        files.write_json(self.path / CONFIG, config)
        self.config = config

    def task(self, data_dir: str | Path) -> Task:
        """Rebuild the trained task from the config and the files that it saved.

        Raises:
            UserError: this version does not know the task or one of its options, or a file is
                damaged.
        """
        task = tasks.get(self.config["task"])
        try:
            made = task.from_config(self.config["task_config"], data_dir)
        except (KeyError, TypeError) as error:
            raise UserError(
                f"{self.path / CONFIG} is damaged: its task entry is incomplete"
            ) from error
        if self.finished:
            files.check_hashes(
                self.path / files.MANIFEST, self.path, without=[self.model_file.name]
            )
        made.read_assets(self.path)
        return made

    def write_assets(self, task: Task) -> None:
        """Write the `assets()` that a prepared task learned from its data, one file each."""
        self.require_same_data(task)
        for name, content in task.assets().items():
            file = self.path / name
            if not file.exists():
                files.write(file, content)
            elif file.read_bytes() != content:
                raise UserError(
                    f"{file} does not match the data in {task.data_dir}: "
                    f"train in a new folder or restore the data that the run was started with"
                )

    def history(self) -> list[dict[str, Any]]:
        """Return the history: one row per checkpoint so far."""
        rows = files.read_json_lines(self._history)
        for number, row in enumerate(rows, 1):
            kinds = {type(value) for value in row.values()}
            if not isinstance(row.get("step"), int) or not kinds <= {int, float}:
                raise UserError(
                    f"{self._history} is damaged: line {number} must hold numbers and a step"
                )
        return rows

    def finished_history(self) -> list[dict[str, Any]]:
        """Return the history of a finished run; a `UserError` if rows or seconds are missing."""
        rows = self.history()
        if not rows or not all("seconds" in row for row in rows):
            raise UserError(
                f"{self._history} is missing or damaged: expected a row with the seconds of each "
                "checkpoint; restore it"
            )
        return rows

    def write_history(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Replace the history by these rows."""
        files.write_json_lines(self._history, rows)

    def manifest(self) -> dict[str, str]:
        """Return the hashes of the finished model and its files; empty for unfinished runs."""
        return files.read_json(self.path / files.MANIFEST)

    def metrics(self) -> dict[str, dict[str, Any]]:
        """Return the metrics of the finished model, by split."""
        file = self.path / "metrics.json"
        figures = files.read_json(file)
        if not all(isinstance(one, dict) for one in figures.values()):
            raise UserError(f"{file} is damaged: expected an object of metrics for each split")
        return figures

    def write_metrics(
        self, split: str, figures: Mapping[str, Any], limit: int | None = None
    ) -> None:
        """Add or replace the metrics of one split; those of its first examples have another name.

        With `limit`, the split "test" is "test, first 100".
        """
        name = part_name(split, limit)

        def changed(_: str) -> str:
            return json.dumps({**self.metrics(), name: dict(figures)}, indent=2) + "\n"

        files.rewrite(self.path / "metrics.json", changed)

    def load_model(self, task: Task | None = None) -> keras.Model:
        """Load the finished model, not compiled; `task` is the result of `task()`, if at hand.

        Raises:
            UserError: the run is not finished, or a file is damaged or not the one in the manifest.
        """
        self.require_finished()
        task = task or self.task("")  # also registers the classes that the file names
        files.check_hashes(self.path / files.MANIFEST, self.path)
        try:
            model = keras.saving.load_model(self.model_file, compile=False)
        except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile) as error:
            raise UserError(f"{self.model_file} does not load: {first_line(error)}") from error
        task.check_model(model)
        return model

    def save_model(self, model: keras.Model, task: Task) -> None:
        """Write the manifest and then the finished model, which marks the run as finished."""
        with files.atomic_file(self.model_file) as temporary:
            keras.saving.save_model(model, temporary)
            kept = {name: self.path / name for name in (CONFIG, *task.assets())}
            files.write_json(
                self.path / files.MANIFEST, files.hashes({**kept, self.model_file.name: temporary})
            )

    @classmethod
    @contextlib.contextmanager
    def lock(cls, path: str | Path) -> Iterator[None]:
        """Lock the folder while a process trains there, and remove what killed processes left.

        The lock ends with the `with` block, or with the process, even if it is killed.
        """
        path = Path(path)
        with files.only_process(path, "training"):
            try:
                for entry in (*path.glob("*"), *path.glob("checkpoints/*")):
                    if files.is_stale(entry):
                        entry.unlink()
            except OSError as error:
                raise FileError(f"cannot write {path}: {error.strerror}") from error
            yield
