"""The command line, `quasiattn`: train a task, measure it, ask it, export it."""

import json
import logging
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import click
import tensorflow as tf

from keras_quasiattn import tasks
from keras_quasiattn._version import __version__
from keras_quasiattn.cli.arguments import (
    DATA_DIR,
    RUN,
    Group,
    TensorFlowPath,
    assignments,
    lines_of,
    own_data_preset,
)
from keras_quasiattn.errors import UserError


@click.group(
    cls=Group,
    epilog="quasiattn tasks\n"
    "quasiattn train mlu --model coda --run runs/mlu-coda\n"
    "quasiattn evaluate runs/mlu-coda\n"
    "quasiattn predict runs/mlu-coda 'x=85,y=-52,y-x'\n"
    "quasiattn export runs/mlu-coda --to saved_models",
)
@click.version_option(__version__, prog_name="quasiattn")
def cli() -> None:
    """Train, measure and export models with quasi-attention: weights that add, subtract or delete."""


@cli.command("tasks", epilog="quasiattn tasks")
def list_tasks() -> None:
    """List the tasks with their models, presets and options."""
    for name in tasks.available():
        task = tasks.get(name)
        click.echo(f"{name}: {task.summary}")
        click.echo(f"  models: {', '.join(task.models)}")
        for preset_name, preset in task.presets.items():
            click.echo(f"  preset {preset_name}: {preset.summary}")
            options = {model: preset.for_model(model).options() for model in task.models}
            for option in sorted(set().union(*options.values())):
                for value, models in _models_by_value(options, option).items():
                    whose = "" if len(models) == len(task.models) else f"  ({', '.join(models)})"
                    click.echo(f"    {option} = {value}{whose}")


def _models_by_value(options: dict[str, dict[str, Any]], option: str) -> dict[str, list[str]]:
    """Which models have which value of an option."""
    models: dict[str, list[str]] = {}
    for model, values in options.items():
        if option in values:
            models.setdefault(str(values[option]), []).append(model)
    return models


@cli.command(
    epilog="quasiattn train mlu --model coda --run runs/mlu-coda\n"
    "quasiattn train mlu --model softmax --run runs/mlu-softmax --seed 1 --set training.steps=3000\n"
    "quasiattn train mlu --model coda --preset paper --run runs/paper --policy mixed_bfloat16\n"
    "quasiattn train classify --preset trec --run runs/trec --vectors glove.6B.100d.txt\n"
    "quasiattn train classify --data my.tsv --run runs/mine\n"
    "quasiattn train rank --preset wikiqa --run runs/wikiqa --vectors glove.6B.100d.txt\n"
    "\n"
    "Started again after an interruption, the same command goes on where the run stopped."
)
@click.argument("task")
@click.option("--model", help="One of the task's models; default its first.")
@click.option("--preset", help="One of the task's presets; default its first.")
@click.option("--data", type=TensorFlowPath(), help="Train on this file of your own: TSV, CSV or JSONL.")
@click.option(
    "--vectors", type=TensorFlowPath(), help="Word vectors to begin with: GloVe's text form, or an .npz."
)
@click.option(
    "--run",
    "path",
    required=True,
    type=TensorFlowPath(),
    help="Folder of the run; made if missing.",
)
@click.option("--seed", default=0, show_default=True, help="Fixes weights, noise and the order of the data.")
@click.option(
    "--set", "overrides", multiple=True, metavar="NAME=VALUE", help="Change one option; repeatable."
)
@click.option(
    "--policy",
    default="float32",
    show_default=True,
    help="Precision: float32, mixed_float16 or mixed_bfloat16.",
)
@click.option(
    "--strategy", default="one", show_default=True, help="Distribution: one, or mirrored over all devices."
)
@click.option("--quiet", is_flag=True, help="No progress bar.")
@DATA_DIR
@click.pass_obj
def train(
    arguments: Sequence[str],
    task: str,
    model: str | None,
    preset: str | None,
    data: Path | None,
    vectors: Path | None,
    path: Path,
    seed: int,
    overrides: tuple[str, ...],
    policy: str,
    strategy: str,
    quiet: bool,
    data_dir: Path,
) -> None:
    """Train TASK in a run folder, or go on where an interrupted run stopped."""
    from keras_quasiattn import training

    task_class = tasks.get(task)
    settings: dict[str, Any] = dict(assignments(overrides))
    if data is not None:
        preset = own_data_preset(task_class, preset, data, settings)
    if vectors is not None:
        settings["data.vectors"] = str(vectors)
    made = task_class(
        preset=next(iter(task_class.presets)) if preset is None else preset,
        model=task_class.models[0] if model is None else model,
        seed=seed,
        data_dir=data_dir,
        overrides=settings,
    )
    folder = training.train(
        made,
        path,
        policy=policy,
        strategy=strategy,
        progress=not quiet,
        command=["quasiattn", *arguments],
    )
    click.echo(json.dumps({"run": str(folder.path), **folder.metrics(), **folder.noted}))


@cli.command(
    epilog="quasiattn evaluate runs/mlu-coda\nquasiattn evaluate runs/mlu-coda --split validation --limit 1000\n"
    "quasiattn evaluate runs/mlu-coda --record results/mlu.jsonl"
)
@RUN
@click.option("--split", default="test", show_default=True, help="Part of the data to measure on.")
@click.option("--limit", type=click.IntRange(min=1), help="Number of examples; default all.")
@click.option(
    "--record",
    type=click.Path(path_type=Path),
    help="Add a row to this file of JSON lines, for a table of results.",
)
@DATA_DIR
def evaluate(run: Path, split: str, limit: int | None, record: Path | None, data_dir: Path) -> None:
    """Measure the finished run in folder RUN and keep the figures there."""
    from keras_quasiattn import training

    folder, made = _finished(run, data_dir)
    made.prepare()
    figures = made.evaluate(folder.load_model(), split, limit)
    folder.write_metrics(split, figures)
    if record is not None:
        training.append_result(record, training.result_row(folder, split, figures))
    click.echo(json.dumps({"run": str(run), "split": split, **figures, **folder.noted}))


@cli.command(
    epilog="quasiattn predict runs/mlu-coda 'x=85,y=-52,y-x'\n"
    "quasiattn predict runs/mlu-coda - < questions.txt\n"
    "quasiattn predict runs/snli $'A man plays a guitar.\\tA man makes music.'"
)
@RUN
@click.argument("inputs", nargs=-1, required=True)
def predict(run: Path, inputs: tuple[str, ...]) -> None:
    """Ask the finished run in folder RUN; '-' reads one input a line from standard input.

    Prints one JSON object an input.
    """
    for answer in _answers(run, inputs):
        click.echo(json.dumps(answer))


@cli.command(
    epilog="quasiattn show runs/trec 'What is the capital of Yugoslavia ?'\nquasiattn show runs/trec - < texts.txt"
)
@RUN
@click.argument("inputs", nargs=-1, required=True)
def show(run: Path, inputs: tuple[str, ...]) -> None:
    """Show what the finished run in folder RUN reads in a text: every token, its gate and its weight.

    '-' reads one text a line from standard input. `predict` gives the same as data.
    """
    from keras_quasiattn.report import token_table

    for answer in _answers(run, inputs):
        if "tokens" not in answer:
            raise UserError(f"the answers of {run} have no tokens to show: use predict")
        click.echo(token_table(answer))


@cli.command(
    epilog="quasiattn export runs/mlu-coda\n"
    "quasiattn export runs/mlu-coda --to saved_models --name arithmetic --version 2"
)
@RUN
@click.option(
    "--to",
    "target",
    default="saved_models",
    show_default=True,
    type=TensorFlowPath(),
    help="Folder of all exported models.",
)
@click.option("--name", help="Name of the model; default that of the run folder.")
@click.option("--version", type=int, help="Number of the version; default the next.")
def export(run: Path, target: Path, name: str | None, version: int | None) -> None:
    """Write the finished run in folder RUN as a SavedModel for TensorFlow Serving; prints its folder."""
    from keras_quasiattn import serving

    folder, made = _finished(run)
    click.echo(serving.export(folder, made, target, name=name, version=version))


@cli.command(
    epilog="quasiattn report runs/trec-gated runs/trec-soft --to report.html\n"
    "quasiattn report runs/snli --to snli.html --input $'A man plays.\\tA man makes music.'\n"
    "quasiattn report runs/*-seed? --to all.html --split test --results results/classify.jsonl\n"
    "quasiattn report saved_models/trec/1 --to trec.html --input 'Who was Galileo ?'"
)
@click.argument("runs", nargs=-1, required=True, type=TensorFlowPath())
@click.option(
    "--to", "target", required=True, type=click.Path(path_type=Path), help="The HTML page to write."
)
@click.option("--input", "inputs", multiple=True, help="A text to show; repeatable; default one example.")
@click.option("--split", help="Show texts from this part of the data instead, and densities over it.")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=200,
    show_default=True,
    help="Texts to measure densities on.",
)
@click.option(
    "--results", type=click.Path(path_type=Path), help="Recorded results, for accuracy against density."
)
@DATA_DIR
def report(
    runs: tuple[Path, ...],
    target: Path,
    inputs: tuple[str, ...],
    split: str | None,
    limit: int,
    results: Path | None,
    data_dir: Path,
) -> None:
    """Draw what the models in folders RUNS attend to and how they learned, as one HTML page.

    RUNS are run folders or exported models. Figures go beside the page, as SVG and PNG.
    """
    from keras_quasiattn.report import write_report

    page, *figures = write_report(
        runs, target, inputs=inputs, split=split, limit=limit, results=results, data_dir=data_dir
    )
    click.echo(json.dumps({"page": str(page), "figures": len(figures)}))


def _finished(run: Path, data_dir: Path = Path("data")) -> tuple[Any, tasks.Task]:
    from keras_quasiattn.training import RunFolder

    folder = RunFolder.open(run, finished=True)
    return folder, folder.task(data_dir)


def _answers(run: Path, inputs: Iterable[str]) -> list[dict[str, Any]]:
    folder, made = _finished(run)
    texts = list(lines_of(inputs))
    for text in texts:
        made.check_input(text)
    return made.predict(folder.load_model(), texts)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line: an error is one line on standard error and an exit code that is not 0.

    Args:
        arguments: what follows the program's name; default those of the process.

    Raises:
        SystemExit: always, with the exit code.
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    logging.getLogger("absl").setLevel(logging.ERROR)  # TFDS warns of every config that has no fixed name
    sys.exit(
        _run(lambda: cli.main(list(arguments), prog_name="quasiattn", obj=arguments, standalone_mode=False))
    )


def _run(command: Callable[[], Any]) -> int:
    try:
        result = command()
        return result if isinstance(result, int) else 0
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return error.exit_code
    except click.ClickException as error:
        return _fail(error.format_message(), error.exit_code)
    except UserError as error:
        return _fail(str(error), 1)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        return _fail(f"{error.filename or 'system'}: {error.strerror or error}", 1)
    except (tf.errors.DataLossError, tf.errors.NotFoundError, tf.errors.ResourceExhaustedError) as error:
        # Data files that were damaged or removed, or not enough memory.
        return _fail(f"TensorFlow stopped: {error.message}", 1)


def _fail(message: str, code: int) -> int:
    click.echo(f"quasiattn: {' '.join(message.splitlines())}", err=True)
    return code
