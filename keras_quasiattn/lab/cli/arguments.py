"""Options and arguments shared by several commands, and texts from the command line."""

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from keras_quasiattn.errors import UserError
from keras_quasiattn.files import check_writable
from keras_quasiattn.lab import tasks
from keras_quasiattn.lab.tasks.catalogue import MODELS, OPTIONS, usual_model
from keras_quasiattn.lab.training.config import POLICIES

Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def _completing(known: Callable[[click.Context], Mapping[str, str]]) -> Complete:
    """Return a completer for the names, with a sentence each, that are known in a context."""
    return lambda context, parameter, begun: [
        CompletionItem(name, help=said or None)
        for name, said in known(context).items()
        if name.startswith(begun)
    ]


def names(known: Iterable[str]) -> Complete:
    """Return a completer for some names."""
    return _completing(lambda context: dict.fromkeys(known, ""))


def _typed_task(context: click.Context) -> Any:
    try:
        # Where the option that is completed has no value yet, click has not parsed the task.
        return tasks.describe(context.params.get("task") or context.meta.get("task") or "")
    except UserError:
        return tasks.Entry("", "", (), {})


def _options(context: click.Context) -> dict[str, str]:
    """Return the options of the task, preset and model that were typed, as NAME=VALUE."""
    found = _typed_task(context)
    preset = context.params.get("preset") or next(iter(found.presets), "")
    if preset not in found.presets:
        return {}
    model = context.params.get("model") or usual_model(found, preset)
    if model not in found.models:
        return {}
    options = found.presets[preset].for_model(model).used_options()
    return {f"{name}={value}": OPTIONS.get(name, "") for name, value in options.items()}


complete_task = _completing(
    lambda context: {name: tasks.describe(name).summary for name in tasks.available()}
)
complete_model = _completing(
    lambda context: {name: MODELS.get(name, "") for name in _typed_task(context).models}
)
complete_preset = _completing(
    lambda context: {name: one.summary for name, one in _typed_task(context).presets.items()}
)
complete_option = _completing(_options)


class TensorFlowPath(click.Path):
    """A path that TensorFlow accepts, which means valid UTF-8; "" is not the current folder."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path, or a usage error."""
        if not os.fspath(value):
            self.fail("the path is empty", param, ctx)
        try:
            os.fspath(value).encode()
        except UnicodeEncodeError:
            self.fail(f"the path {os.fspath(value)!r} must be UTF-8", param, ctx)
        return super().convert(value, param, ctx)


def _writable(is_folder: bool) -> Callable[..., Path | None]:
    """Return a callback that refuses a path, before any work, if nothing can be written there."""

    def check(context: click.Context, parameter: click.Parameter, path: Path | None) -> Path | None:
        if path is not None:
            check_writable(path, is_folder=is_folder)
        return path

    return check


PATH, FILE, COUNT = TensorFlowPath(), click.Path(path_type=Path), click.IntRange(min=1)
# Of an option that names a file or folder to write.
OUTPUT_FILE: dict[str, Any] = {"type": FILE, "callback": _writable(is_folder=False)}
OUTPUT_FOLDER: dict[str, Any] = {"type": PATH, "callback": _writable(is_folder=True)}
DATA_DIR = click.option(
    "--data-dir",
    default="data",
    envvar="QUASIATTN_DATA_DIR",
    type=PATH,
    help="Folder of the data; created if missing.",
)
RUN = click.argument("run", type=PATH)
POLICY = click.option(
    "--policy",
    default="float32",
    shell_complete=names(POLICIES),
    help="Precision: float32, mixed_float16 or mixed_bfloat16.",
)
_NOT: dict[str, Any] = {"callback": lambda context, parameter, given: not given}
QUIET = click.option("--quiet", "progress", is_flag=True, **_NOT, help="Print no progress.")
COLUMNS = click.option(
    "--columns",
    metavar="NAME=YOURS,...",
    help="Names of the columns in your files, where they differ: text=review,label=sentiment.",
)


def assignments(option: str, texts: Iterable[str], example: str) -> Iterable[tuple[str, str]]:
    """Return the (name, value) pairs of an option's NAME=VALUE arguments."""
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise UserError(f"{option} {text!r}: it must be NAME=VALUE, such as {example}")
        yield name, value


def columns_of(text: str) -> dict[str, str]:
    """Map a task's column names to those in the user's files."""
    given = list(assignments("--columns", text.split(","), "text=review"))
    columns = dict(given)
    if len(columns) < len(given):
        raise UserError(f"--columns {text!r}: a column is named twice")
    return columns


def lines_of(inputs: Iterable[str]) -> Iterable[str]:
    """Return the inputs, with '-' replaced by the lines of standard input."""
    for text in inputs:
        if text == "-":
            # As Python decodes arguments: bytes that are not UTF-8 become surrogates.
            stdin = sys.stdin.buffer.read().decode("utf-8", "surrogateescape")
            yield from stdin.removesuffix("\n").split("\n")
        else:
            yield text
