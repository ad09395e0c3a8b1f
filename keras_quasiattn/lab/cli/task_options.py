"""The options that select a task, its data and its settings."""

import functools
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab import tasks
from keras_quasiattn.lab.cli.arguments import (
    COLUMNS,
    DATA_DIR,
    PATH,
    assignments,
    columns_of,
    complete_model,
    complete_option,
    complete_preset,
    complete_task,
)
from keras_quasiattn.lab.cli.loading import load
from keras_quasiattn.lab.tasks.catalogue import chosen_options, usual_model
from keras_quasiattn.lab.tasks.encoder_place import ENCODER, check_place, has_encoder
from keras_quasiattn.lab.tasks.preset import SPLITS

_OPTIONS = (
    click.argument("task", shell_complete=complete_task),
    click.option(
        "--model",
        shell_complete=complete_model,
        help="One of the task's models; default: by task and preset.",
    ),
    click.option(
        "--preset",
        shell_complete=complete_preset,
        help="One of the task's presets; default: the first.",
    ),
    click.option(
        "--data",
        type=PATH,
        help="Train on this file of your own: TSV, CSV, TXT, JSONL or Parquet.",
    ),
    click.option(
        "--validation",
        type=PATH,
        help="Choose the checkpoint on this file; default: a tenth of your texts.",
    ),
    click.option(
        "--test", type=PATH, help="Measure on this file of your own, in `evaluate` and `compare`."
    ),
    COLUMNS,
    click.option("--source", type=PATH, help="Train on this file of input texts, one per line ..."),
    click.option(
        "--target", type=PATH, help="... and this file of the right outputs, line by line."
    ),
    click.option(
        "--vectors",
        type=PATH,
        help="Word vectors for models that read words: GloVe's text form, or an .npz.",
    ),
    click.option(
        "--encoder",
        metavar="PLACE",
        help="Start from this pretrained encoder: a KerasHub preset, hf://…, kaggle://… or a "
        "folder.",
    ),
    click.option("--seed", default=0, help="Seed of weights, noise and the order of the data."),
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


def makes_task(
    command: Callable[..., Any], usual_model: Callable[[Any, str], str] = usual_model
) -> Callable[..., Any]:
    """Add the options that select a task to a command, and pass it the task as `made`."""

    @functools.wraps(command)
    def with_task(task: str, model: str | None, preset: str | None, **others: Any) -> Any:
        columns, vectors, encoder = (others.pop(one) for one in ("columns", "vectors", "encoder"))
        seed, data_dir = others.pop("seed"), others.pop("data_dir")
        described = tasks.describe(task)
        settings: dict[str, Any] = dict(
            assignments("--set", others.pop("overrides"), "training.steps=3000")
        )
        data, source, target = (others.pop(one) for one in ("data", "source", "target"))
        files = {
            "train": _files_of(data, source, target),
            **{split: others.pop(split) for split in ("validation", "test")},
        }
        own = {f"data.{split}": str(file) for split, file in files.items() if file is not None}
        if own:
            option, file = next(iter(own.items()))
            given = f"--{option.removeprefix('data.').replace('train', 'data')} {file!r}"
            if source is not None:
                given = f"--source {str(source)!r} --target {str(target)!r}"
            preset = _own_data_preset(task, preset, own, settings, given)
        settings |= own
        if columns is not None:
            settings["data.columns"] = columns_of(columns)
        if vectors is not None:
            settings["data.vectors"] = str(vectors)
        if encoder is not None:
            model = _encoder_model(task, model)
            settings["model.encoder"] = encoder
        chosen = next(iter(described.presets)) if preset is None else preset
        if columns is not None and chosen in described.presets:
            _require_columns(task, chosen, columns)
        names = {
            "preset": chosen,
            "model": usual_model(described, chosen) if model is None else model,
        }
        options = chosen_options(task, described, **names, seed=seed, overrides=settings)
        _require_files(options.data)
        if "encoder" in options.model and not has_encoder(others.get("path")):
            check_place(options.model["encoder"])
        load()
        made = tasks.get(task)(**names, seed=seed, data_dir=data_dir, overrides=settings)
        if preset is None:
            _confirm_download(made)
        return command(made=made, **others)

    for option in reversed(_OPTIONS):
        with_task = option(with_task)
    return with_task


def _encoder_model(task: str, model: str | None) -> str:
    """Return the model that has a pretrained encoder."""
    if ENCODER not in tasks.describe(task).models:
        able = [one for one in tasks.available() if ENCODER in tasks.describe(one).models]
        raise UserError(
            f"--encoder: task {task} has no model with a pretrained encoder; tasks that have one: "
            f"{', '.join(able)}"
        )
    if model not in (None, ENCODER):
        raise UserError(f"--encoder needs the model {ENCODER!r}, not {model!r}")
    return ENCODER


def _files_of(data: Path | None, source: Path | None, target: Path | None) -> Path | None:
    """Return the user's file, or two joined by a comma as the data options take them, or None."""
    if source is None and target is None:
        return data
    if data is not None or source is None or target is None:
        raise UserError("give --source FILE and --target FILE together, and not with --data")
    return Path(f"{source},{target}")


def _own_data_preset(
    task: str, preset: str | None, own: dict[str, str], settings: dict[str, Any], given: str
) -> str:
    """Return the preset for the user's own files, by data option; errors name what was `given`."""
    own_data = tasks.describe(task).own_data
    if own_data is None:
        raise UserError(f"{given}: task {task} generates its own data and accepts no file")
    needed, training = own_data
    if preset not in (None, needed):
        raise UserError(f"{given} needs the preset {needed!r}, not {preset!r}")
    if training not in own and training not in settings:
        raise UserError(f"{given} is of no use without a file to train on: add --data FILE")
    return needed


def _require_columns(task: str, preset: str, columns: str) -> None:
    """Raise an error if the data of a preset have no columns to name."""
    presets = tasks.describe(task).presets
    if "columns" not in presets[preset].data:
        able = [name for name, one in presets.items() if "columns" in one.data]
        raise UserError(
            f"--columns {columns!r}: the preset {preset!r} of task {task} reads no table of yours; "
            f"presets that read one: {', '.join(able) or 'none'}"
        )


def _confirm_download(made: "tasks.Task") -> None:
    """Ask before downloading data that the user did not name."""
    missing = made.pending_download()
    if not missing:
        return
    if sys.stdin.isatty() and click.confirm(
        f"No data are given. Download {missing} to {made.data_dir}?", err=True
    ):
        return
    raise UserError(
        f"no data are given: add --data FILE, or --preset {made.preset} to download {missing}"
    )


def _require_files(options: Mapping[str, Any]) -> None:
    """Raise an error for missing files before anything slow begins."""
    for name in (*SPLITS, "vectors"):
        given = options.get(name) or ""
        if not Path(given).exists():
            for file in given.split(","):
                if not Path(file).exists():
                    raise UserError(f"data.{name}: cannot read {file}: No such file or directory")
