"""Which checkpoint becomes the finished model, and when training may stop early."""

from collections.abc import Mapping, Sequence
from typing import Any

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.tasks import Task, TrainingSettings

_SMALLEST = ("loss", "perplexity")
Rows = Sequence[Mapping[str, Any]]


def judged_by(settings: TrainingSettings) -> tuple[str, str]:
    """Return the validation metric that ranks checkpoints, and whether "min" or "max" is best.

    With `select="last"` the metric is the loss.
    """
    name = "loss" if settings.select == "last" else settings.select
    return name, "min" if name in _SMALLEST else "max"


def check_selection(task: Task) -> None:
    """Check that `training.select` names a metric that the history will contain."""
    figures = ["last", "loss", *(metric.name for metric in task.metrics())]
    if task.options.training.select not in figures:
        raise UserError.unknown("training.select", task.options.training.select, figures)


def selected_step(rows: Rows, settings: TrainingSettings) -> int:
    """Return the update whose checkpoint would become the finished model, of several the first."""
    if settings.select == "last":
        return rows[-1]["step"]
    name, direction = judged_by(settings)
    best = min if direction == "min" else max
    return best(rows, key=lambda row: row[f"val_{name}"])["step"]


def is_over(rows: Rows, settings: TrainingSettings) -> bool:
    """Return whether training ends with the last row: all updates are done, or patience ran out."""
    if not rows:
        return False
    last = rows[-1]["step"]
    if settings.patience is None:
        return last >= settings.steps
    waited = last - selected_step(rows, settings)
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
