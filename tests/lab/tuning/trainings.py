"""A double of `train` for searches."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from keras_quasiattn.lab.tasks import Task
from keras_quasiattn.lab.training import RunFolder


class Trainings:
    """A double of `train`, which records its arguments and writes a run with metrics from them."""

    def __init__(self, figure: Callable[[Mapping[str, Any]], float]) -> None:
        self.figure = figure
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.stop_at: int | None = None
        self.stopped_by: BaseException = KeyboardInterrupt()

    def __call__(self, task: Task, path: Path, **options: Any) -> RunFolder:
        if RunFolder.exists(path):
            folder = RunFolder.open(path)
            folder.require_same(task, {})
        else:
            folder = RunFolder.create(path, task, options={})
            folder.checkpoints.mkdir()
        if len(self.asked) == self.stop_at:
            raise self.stopped_by
        if not folder.finished:
            self.asked.append((path.parent.name, task.options.options()))
            folder.write_metrics("validation", {"accuracy": self.figure(task.options.options())})
            folder.model_file.write_text("trained")
        return folder
