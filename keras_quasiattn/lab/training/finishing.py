"""The end of a run: its finished model and results, or another number of updates."""

import contextlib
import datetime
import json
import os
import platform
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras

import keras_quasiattn
from keras_quasiattn.errors import UserError
from keras_quasiattn.files import MANIFEST, rewrite
from keras_quasiattn.lab.tasks import Task
from keras_quasiattn.lab.training.checkpoints import Checkpoints, assign, average
from keras_quasiattn.lab.training.config import CONFIG
from keras_quasiattn.lab.training.progress import Progress
from keras_quasiattn.lab.training.replicas import without_training
from keras_quasiattn.lab.training.run_folder import LENGTH, RunFolder
from keras_quasiattn.lab.training.selection import Rows, candidates, required_step
from keras_quasiattn.lab.training.strategy import dtype_policy

# Config entry of a run that `finish` ended: the number of updates done.
_ENDED = "ended_at_step"
# Config entry of a run whose number of updates changed: the old number, and until which update it
# applied.
_EARLIER = "earlier_steps"


def finish(path: str | Path, data_dir: str | Path = "data", *, progress: bool = True) -> RunFolder:
    """End a run before its last update: its best checkpoint so far becomes the finished model.

    The same `train` call as before still continues the run, from its last checkpoint.

    Args:
        path: the run folder.
        data_dir: where the run's data are.
        progress: whether to print status messages.

    Raises:
        UserError: the folder holds no run, or one without a checkpoint, or is in use.

    ```python
    finish("runs/mlu-coda").load_model()
    ```
    """
    folder = RunFolder.open(path)
    with (
        Progress(progress) as shown,
        RunFolder.lock(path),
        dtype_policy(folder.config["options"]["policy"]),
        shown.busy("measuring the finished model"),
    ):
        if folder.finished:
            shown.say(f"{path} is finished already")
            return folder
        task = folder.task(data_dir)
        checkpoints = Checkpoints(folder.checkpoints, keep=1)
        last, _ = checkpoints.last_readable()
        rows = [row for row in folder.history() if row["step"] <= last]
        step = required_step(rows, task.options.training, folder.path)
        task.prepare()
        folder.write_assets(task)
        folder.write_history(rows)
        folder.write_config({**folder.config, _ENDED: last})
        model = task.build_model()
        compile_for(task, model)
        save_finished(task, model, checkpoints, rows, folder, shown)
        steps = task.training_settings.steps
        shown.say(f"{path}: ended at update {last} of {steps}; the model is that of {step}")
    return folder


def compile_for(task: Task, model: keras.Model, **options: Any) -> None:
    """Compile a model with the loss and the metrics of its task."""
    metrics = "weighted_metrics" if task.weighted_metrics else "metrics"
    model.compile(loss=task.loss(), **{metrics: task.metrics()}, **options)


def save_finished(
    task: Task,
    model: keras.Model,
    checkpoints: Checkpoints,
    rows: Rows,
    folder: RunFolder,
    shown: Progress,
    *,
    writes: bool = True,
) -> None:
    """Measure and save the selected or averaged weights; only one of several workers `writes`."""
    settings = task.training_settings
    selected = required_step(rows, settings, folder.path)
    steps = [row["step"] for row in reversed(candidates(rows)) if row["step"] <= selected]
    weights = average(checkpoints, steps[: settings.average_checkpoints])
    state, source = checkpoints.read(selected, "state"), checkpoints.file(selected)
    assign(model.trainable_variables, weights, source)
    assign(model.non_trainable_variables, state, source)
    finished = task.finished(model)
    if finished is not model:
        compile_for(task, finished)
    figures = finished.evaluate(task.validation_data(), return_dict=True, verbose=0)
    if not writes:
        return
    figures = {name: float(value) for name, value in figures.items()}
    if shown.shown:
        with shown.busy("measuring the baselines"):
            baselines = task.measure_baselines("validation")
        for line in task.doubts(figures, baselines, "validation"):
            shown.say(line)
    folder.write_metrics("validation", figures)
    folder.save_model(without_training(finished), task)


def is_final(folder: RunFolder, task: Task) -> bool:
    """Return whether the run is finished, so there is nothing to train."""
    same = folder.steps is None or folder.length == _asked(task)
    return folder.finished and _ENDED not in folder.config and same


def _asked(task: Task) -> dict[str, int | None]:
    """Return the requested length of the run, in the form of `RunFolder.length`."""
    options = task.options.options()
    return {name: options[name] for name in LENGTH}


def reopen(folder: RunFolder, task: Task) -> None:
    """Reopen a run, whose checkpoints stay, to train up to the requested number of updates."""
    asked = _asked(task)
    reached = max((row["step"] for row in folder.history()), default=0)
    if asked != folder.length:
        task.prepare()  # the number of updates in some passes follows from the data
        steps, passes = task.training_settings.steps, task.options.training.passes
        given = f"steps is {steps}" if passes is None else f"passes is {passes}, {steps} updates"
        if steps < reached:
            raise UserError(
                f"training.{given}, but {folder.path} has trained {reached}: "
                f"it must be at least that, or end the run with: quasiattn finish {folder.path}"
            )
        every = task.training_settings.checkpoint_every
        written = Checkpoints(folder.checkpoints, keep=1).steps()
        last = max(written, default=0)
        if steps > last >= every + max((one for one in written if one % every == 0), default=0):
            raise UserError(
                f"training.{given} with a checkpoint every {every}, but those of {folder.path} "
                f"are after {', '.join(map(str, written))} updates: set training."
                f"{'passes' if passes is None else 'steps'} instead, or train in a new folder"
            )
    if folder.finished:
        # Check everything that may fail before the finished model is removed.
        task.prepare()
        folder.write_assets(task)
        # Remove the model first: a run with a model and a different config would be damaged.
        for name in (folder.model_file.name, MANIFEST, "metrics.json"):
            (folder.path / name).unlink(missing_ok=True)
    config: dict[str, Any] = {**folder.config}
    config.pop(_ENDED, None)
    if folder.length != asked:
        earlier = {"steps": folder.steps, "until_step": reached}
        options = {**config["task_config"]["options"], **asked}
        config[_EARLIER] = [*config.get(_EARLIER, []), earlier]
        config["task_config"] = {**config["task_config"], "options": options}
    if config != folder.config:
        folder.write_config(config)


def result_row(folder: RunFolder, split: str, figures: Mapping[str, Any]) -> dict[str, Any]:
    """Return a results row: metrics of a finished run, with its command, seed, options and machine.

    Args:
        folder: the finished run.
        split: the data split on which the metrics were measured.
        figures: the metrics by name.

    Returns:
        A JSON-serializable row. `seconds` is the time of training and validation, including
        start-up and compilation; `validation` has the validation metrics of every checkpoint that
        could become the model; `assets` the hashes of files that the run learned from its data,
        such as the vocabulary; `commit` is the commit of the package's source, if it is a Git
        checkout.
    """
    task_config = folder.config["task_config"]
    history = folder.history()
    assets = folder.manifest()
    for name in (CONFIG, folder.model_file.name):
        assets.pop(name, None)
    return {
        "task": folder.config["task"],
        **{name: task_config[name] for name in ("preset", "model", "seed")},
        "split": split,
        **figures,
        "steps": history[-1]["step"],
        "seconds": round(sum(row["seconds"] for row in history)),
        "parameters": folder.load_model().count_params(),
        "options": task_config["options"],
        **folder.config["options"],
        **folder.noted,
        "versions": folder.config["versions"],
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "processor": _processor(),
        "commit": source_commit(),
        "assets": {name: digest[:16] for name, digest in assets.items()},
        "validation": [
            {
                name.removeprefix("val_"): value
                for name, value in row.items()
                if name == "step" or name.startswith("val_")
            }
            for row in candidates(history)
        ],
        "date": datetime.date.today().isoformat(),
        "command": folder.config["command"],
    }


def _processor() -> str:
    """Return the model of this machine's processor, if the system reports it."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()


def source_commit() -> str | None:
    """Return the commit of the package's source, with "+" for changes; None outside Git."""
    source = Path(keras_quasiattn.__file__).parent

    def git(*words: str) -> str:
        command = ["git", "-C", str(source), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        git("ls-files", "--error-unmatch", "_version.py")  # may be another checkout
        return git("rev-parse", "HEAD") + ("+" if git("status", "--porcelain", ".") else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def append_result(file: str | Path, row: Mapping[str, Any]) -> None:
    """Append a row to a JSON Lines file, atomically, even while other processes append to it.

    Raises:
        UserError: the file cannot be written.
    """

    def with_row(rows: str) -> str:
        end = "" if not rows or rows.endswith("\n") else "\n"  # an editor may have left none
        return f"{rows}{end}{json.dumps(dict(row))}\n"

    rewrite(Path(file), with_row)
