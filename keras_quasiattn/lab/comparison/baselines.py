"""Records of simple baselines: the majority class, and a bag of words."""

import datetime
import os
import platform
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from keras_quasiattn.lab.tasks import Task


def baseline_record(task: "Task", split: str, commit: str) -> dict[str, Any]:
    """Measure a task's baselines, which `Recorded` reads from `baselines.jsonl`.

    Args:
        task: the task; its model and seed do not matter.
        split: the part of the data to measure on.
        commit: the commit of the code.

    Returns:
        A JSON-serialisable record with the task's baseline figures.
    """
    task.prepare()
    return {
        "task": task.name,
        "preset": task.preset,
        "split": split,
        **task.baselines(split),
        "data": task.describe_data(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "date": datetime.date.today().isoformat(),
        "commit": commit,
    }


def record_baselines(task: "Task", split: str, folder: str | Path, commit: str) -> None:
    """Append the record of a task's baselines to `baselines.jsonl` in a results folder."""
    from keras_quasiattn.lab.training import append_result

    append_result(Path(folder) / "baselines.jsonl", baseline_record(task, split, commit))
