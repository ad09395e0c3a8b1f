"""What the tiny tasks share: names of options, files of the splits, tasks that are ready to use."""

from pathlib import Path
from typing import Any


def dotted(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options by the names that they have: `model__units` is `model.units`."""
    return {name.replace("__", "."): value for name, value in options.items()}


def splits(folder: Path, form: str = "{}.tsv") -> dict[str, str]:
    """Return the options that name the file of each split."""
    return {
        f"data.{split}": form.format(folder / split) for split in ("train", "validation", "test")
    }


def make(
    name: str,
    model: str,
    folder: Path,
    settings: dict[str, Any],
    seed: int = 3,
    preset: str = "own",
) -> Any:
    """Return the task of this name; its folder is for data."""
    from keras_quasiattn.lab import tasks

    return tasks.get(name)(
        preset=preset, model=model, seed=seed, data_dir=folder, overrides=settings
    )


def prepared(task: Any) -> Any:
    """Return the task with its data."""
    task.prepare()
    return task


def built(task: Any) -> tuple[Any, Any]:
    """Return the task with its data, and a model of it."""
    task.prepare()
    return task, task.build_model()
