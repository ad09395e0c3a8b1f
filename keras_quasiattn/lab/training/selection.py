"""Which checkpoint becomes the finished model, and when training may stop early."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.tasks import Task, TrainingSettings

_SMALLEST = ("loss", "perplexity")
Rows = Sequence[Mapping[str, Any]]


def judged_by(settings: TrainingSettings) -> tuple[str, str]:
    """Return the validation metric that ranks checkpoints, and whether "min" or "max" is best."""
    name = "loss" if settings.select == "last" else settings.select
    return name, "min" if name in _SMALLEST else "max"


def check_selection(task: Task) -> None:
    """Check that `training.select` names a metric that the history will contain."""
    figures = ["last", "loss", *(metric.name for metric in task.metrics())]
    if task.options.training.select not in figures:
        raise UserError.unknown("training.select", task.options.training.select, figures)


def candidates(rows: Rows) -> list[Mapping[str, Any]]:
    """Return the rows of the checkpoints that may become the finished model, in order.

    While a callback blends one attention into another, `blend` is below 1, and the model is not yet
    the finished one.
    """
    return [row for row in rows if row.get("blend", 1) == 1]


def selected_step(rows: Rows, settings: TrainingSettings) -> int | None:
    """Return the update whose checkpoint would become the finished model; the first on ties.

    A checkpoint whose validation metric is NaN, as in half precision, is better than none only.
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
