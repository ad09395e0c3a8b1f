"""The options that select a task, its data and its settings."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from keras_quasiattn import tasks
from keras_quasiattn.cli.arguments import DATA_DIR, TensorFlowPath, assignments
from keras_quasiattn.cli.completion import (
    complete_model,
    complete_option,
    complete_preset,
    complete_task,
)
from keras_quasiattn.cli.loading import load
from keras_quasiattn.errors import UserError
from keras_quasiattn.tasks.catalogue import chosen_options

_OPTIONS = (
    click.argument("task", shell_complete=complete_task),
    click.option(
        "--model",
        shell_complete=complete_model,
        help="One of the task's models; default its first.",
    ),
    click.option(
        "--preset",
        shell_complete=complete_preset,
        help="One of the task's presets; default its first.",
    ),
    click.option(
        "--data", type=TensorFlowPath(), help="Train on this file of your own: TSV, CSV or JSONL."
    ),
    click.option(
        "--source", type=TensorFlowPath(), help="Train on this file of texts, one per line, and ..."
    ),
    click.option(
        "--target", type=TensorFlowPath(), help="... this file of what they should become."
    ),
    click.option(
        "--vectors",
        type=TensorFlowPath(),
        help="Word vectors to start with: GloVe's text form, or an .npz.",
    ),
    click.option(
        "--seed",
        default=0,
        show_default=True,
        help="Fixes weights, noise and the order of the data.",
    ),
    click.option(
        "--set",
        "overrides",
        multiple=True,
        metavar="NAME=VALUE",
        shell_complete=complete_option,
        help="Change one option; repeatable.",
    ),
    DATA_DIR,
)


def makes_task(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that select a task to a command, and pass it the task as `made`."""

    @functools.wraps(command)
    def with_task(
        *,
        task: str,
        model: str | None,
        preset: str | None,
        data: Path | None,
        source: Path | None,
        target: Path | None,
        vectors: Path | None,
        seed: int,
        overrides: tuple[str, ...],
        data_dir: Path,
        **others: Any,
    ) -> Any:
        described = tasks.describe(task)
        settings: dict[str, Any] = dict(assignments("--set", overrides, "training.steps=3000"))
        own_files = _files_of(data, source, target)
        if own_files is not None:
            preset = _own_data_preset(task, preset, own_files, settings)
        if vectors is not None:
            settings["data.vectors"] = str(vectors)
        names = {
            "preset": next(iter(described.presets)) if preset is None else preset,
            "model": described.models[0] if model is None else model,
        }
        chosen_options(task, described, **names, seed=seed, overrides=settings)
        load()
        made = tasks.get(task)(**names, seed=seed, data_dir=data_dir, overrides=settings)
        return command(made=made, **others)

    for option in reversed(_OPTIONS):
        with_task = option(with_task)
    return with_task


def _files_of(data: Path | None, source: Path | None, target: Path | None) -> Path | None:
    """The user's file, or two joined by a comma as the data options take them; None without any."""
    if source is None and target is None:
        return data
    if data is not None or source is None or target is None:
        raise UserError("give --source FILE and --target FILE together, and not with --data")
    return Path(f"{source},{target}")


def _own_data_preset(task: str, preset: str | None, file: Path, settings: dict[str, Any]) -> str:
    """The preset for the user's own file; also writes the file's path into `settings`."""
    own_data = tasks.describe(task).own_data
    if own_data is None:
        raise UserError(
            f"--data {str(file)!r}: task {task} generates its own data and accepts no file"
        )
    own, option = own_data
    if preset not in (None, own):
        raise UserError(f"--data {str(file)!r} needs the preset {own!r}, not {preset!r}")
    settings[option] = str(file)
    return own
