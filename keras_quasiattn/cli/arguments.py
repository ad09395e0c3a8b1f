"""Code shared by the commands: help layout, paths, and arguments for a task's options and texts."""

import functools
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click

from keras_quasiattn import tasks
from keras_quasiattn.errors import UserError


class TensorFlowPath(click.Path):
    """A path that TensorFlow accepts, which means valid UTF-8."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path, or a usage error."""
        try:
            os.fspath(value).encode()
        except UnicodeEncodeError:
            self.fail(f"the path {os.fspath(value)!r} must be UTF-8", param, ctx)
        return super().convert(value, param, ctx)


DATA_DIR = click.option(
    "--data-dir",
    default="data",
    show_default=True,
    envvar="QUASIATTN_DATA_DIR",
    type=TensorFlowPath(),
    help="Folder of the data; created if missing.",
)
RUN = click.argument("run", type=TensorFlowPath())
POLICY = click.option(
    "--policy",
    default="float32",
    show_default=True,
    help="Precision: float32, mixed_float16 or mixed_bfloat16.",
)
QUIET = click.option("--quiet", is_flag=True, help="No progress.")
_TASK = (
    click.argument("task"),
    click.option("--model", help="One of the task's models; default its first."),
    click.option("--preset", help="One of the task's presets; default its first."),
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
        task_class = tasks.get(task)
        settings: dict[str, Any] = dict(assignments("--set", overrides, "training.steps=3000"))
        own_files = _files_of(data, source, target)
        if own_files is not None:
            preset = _own_data_preset(task_class, preset, own_files, settings)
        if vectors is not None:
            settings["data.vectors"] = str(vectors)
        made = task_class(
            preset=next(iter(task_class.presets)) if preset is None else preset,
            model=task_class.models[0] if model is None else model,
            seed=seed,
            data_dir=data_dir,
            overrides=settings,
        )
        return command(made=made, **others)

    for option in reversed(_TASK):
        with_task = option(with_task)
    return with_task


class _Stopped(click.ClickException):
    """Control-C; click's own exception would print an empty line first."""

    exit_code = 130


class _Command(click.Command):
    """A command whose `--help` ends with its epilog as examples, with the line breaks kept."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Examples"):
            for line in (self.epilog or "").splitlines():
                formatter.write(f"  {line}\n")

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise _Stopped(
                "stopped; a training continues from its last checkpoint when started again"
            ) from None


class Group(_Command, click.Group):
    """A group whose commands, and whose own help, have examples."""

    command_class = _Command


def _files_of(data: Path | None, source: Path | None, target: Path | None) -> Path | None:
    """The user's file, or two joined by a comma as the data options take them; None without any."""
    if source is None and target is None:
        return data
    if data is not None or source is None or target is None:
        raise UserError("give --source FILE and --target FILE together, and not with --data")
    return Path(f"{source},{target}")


def _own_data_preset(
    task: type[tasks.Task], preset: str | None, file: Path, settings: dict[str, Any]
) -> str:
    """The preset for the user's own file; also writes the file's path into `settings`."""
    if task.own_data is None:
        raise UserError(
            f"--data {str(file)!r}: task {task.name} generates its own data and accepts no file"
        )
    own, option = task.own_data
    if preset not in (None, own):
        raise UserError(f"--data {str(file)!r} needs the preset {own!r}, not {preset!r}")
    settings[option] = str(file)
    return own


def assignments(option: str, texts: Iterable[str], example: str) -> Iterable[tuple[str, str]]:
    """The (name, value) pairs of an option's NAME=VALUE arguments."""
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise UserError(f"{option} {text!r}: it must be NAME=VALUE, such as {example}")
        yield name, value


def lines_of(inputs: Iterable[str]) -> Iterable[str]:
    """The inputs, with '-' replaced by the lines of standard input."""
    for text in inputs:
        if text == "-":
            # As Python decodes arguments: bytes that are not UTF-8 become surrogates.
            stdin = sys.stdin.buffer.read().decode("utf-8", "surrogateescape")
            yield from stdin.removesuffix("\n").split("\n")
        else:
            yield text
