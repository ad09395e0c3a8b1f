"""Options and arguments of commands: shared ones, and those that select a task and its data."""

import contextlib
import functools
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
from keras_quasiattn.lab.cli.loading import load
from keras_quasiattn.lab.tasks.catalogue import MODELS, OPTIONS, chosen_options, usual_model
from keras_quasiattn.lab.tasks.encoder_place import ENCODER, ENCODER_FILE, check_place
from keras_quasiattn.lab.tasks.preset import SPLITS
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
            if not stdin:
                raise UserError("'-': standard input is empty: give one text per line")
            lines = stdin.removeprefix("\ufeff").removesuffix("\n").split("\n")
            yield from (line.removesuffix("\r") for line in lines)
        else:
            yield text


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
        help="Train on this file of your own: TSV, CSV, TXT, JSONL, Parquet or XLSX.",
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
    click.option(
        "--source",
        type=PATH,
        help="Train on this file of input texts, one per line; with --target.",
    ),
    click.option(
        "--target",
        type=PATH,
        help="File of the right outputs; line n is that of line n of --source.",
    ),
    click.option(
        "--vectors",
        type=PATH,
        help="Word vectors for models that read words: GloVe's text form, or an .npz of `words` "
        "and `vectors`.",
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
        if source is not None or target is not None:
            if data is not None or source is None or target is None:
                together = "give --source FILE and --target FILE together"
                raise UserError(f"{together}, and not with --data")
            for option, path in (("--source", source), ("--target", target)):
                if "," in str(path):
                    raise UserError(
                        f"{option} {str(path)!r}: the path must not have a comma, because a run "
                        "names its two files as SOURCE,TARGET: rename the file or link to it"
                    )
            if described.own_data is not None and "--source" not in described.own_files:
                reads = f"task {task} reads no pair of files: give {described.own_files}"
                raise UserError(f"--source {str(source)!r} --target {str(target)!r}: {reads}")
            data = f"{source},{target}"  # as the data options take two files
        files = {"train": data, **{split: others.pop(split) for split in ("validation", "test")}}
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
            able = [name for name, one in described.presets.items() if "columns" in one.data]
            if chosen not in able:
                raise UserError(
                    f"--columns {columns!r}: the preset {chosen!r} of task {task} reads no table "
                    f"of yours; presets that read one: {', '.join(able) or 'none'}"
                )
        names = {
            "preset": chosen,
            "model": usual_model(described, chosen) if model is None else model,
        }
        options = chosen_options(task, described, **names, seed=seed, overrides=settings)
        for name in (*SPLITS, "vectors"):  # before anything slow begins
            given = options.data.get(name) or ""
            parts = given.split(",") if name in SPLITS else [given]
            for file in parts if not Path(given).exists() else ():
                if not Path(file).exists():
                    looked = f" (a part of {given!r}, split at its commas)" if file != given else ""
                    raise UserError(
                        f"data.{name}: cannot read {file}{looked}: No such file or directory"
                    )
        run = others.get("path")
        if "encoder" in options.model and not (run and (run / ENCODER_FILE).is_file()):
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


def _own_data_preset(
    task: str, preset: str | None, own: dict[str, str], settings: dict[str, Any], given: str
) -> str:
    """Return the preset for the user's own files, by data option; errors name what was `given`."""
    described = tasks.describe(task)
    if described.own_data is None:
        raise UserError(f"{given}: task {task} generates its own data and accepts no file")
    needed, training = described.own_data
    kind, _, option = training.partition(".")
    able = [name for name, one in described.presets.items() if option in getattr(one, kind)]
    if preset not in (None, *able):
        raise UserError(f"{given} needs the preset {needed!r}, not {preset!r}")
    if training not in own and training not in settings:
        missing = f"is of no use without a file to train on: add {described.own_files}"
        raise UserError(f"{given} {missing}")
    return preset or needed


def _confirm_download(made: "tasks.Task") -> None:
    """Ask before downloading data that the user did not name."""
    missing = made.pending_download()
    if not missing:
        return
    with contextlib.suppress(click.Abort):  # Control-D is no
        if sys.stdin.isatty() and click.confirm(
            f"No data are given. Download {missing} to {made.data_dir}?", err=True
        ):
            return
    raise UserError(
        f"no data are given: add --data FILE, or --preset {made.preset} to download {missing}"
    )
