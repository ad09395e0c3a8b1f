"""The commands that make runs: `quasiattn tasks`, `train` and `tune`."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from keras_quasiattn import tasks
from keras_quasiattn._version import __version__
from keras_quasiattn.cli.arguments import (
    POLICY,
    QUIET,
    Group,
    TensorFlowPath,
    assignments,
    makes_task,
)


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
    """Train, measure and export quasi-attention models, whose weights add, subtract or delete."""


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
    """By value of an option, the models that have it."""
    models: dict[str, list[str]] = {}
    for model, values in options.items():
        if option in values:
            models.setdefault(str(values[option]), []).append(model)
    return models


@cli.command(
    epilog="quasiattn train mlu --model coda --run runs/mlu-coda\n"
    "quasiattn train mlu --model softmax --run runs/mlu-softmax --seed 1 "
    "--set training.steps=3000\n"
    "quasiattn train mlu --model coda --preset paper --run runs/paper --policy mixed_bfloat16\n"
    "quasiattn train classify --preset trec --run runs/trec --vectors glove.6B.100d.txt\n"
    "quasiattn train classify --data my.tsv --run runs/mine\n"
    "quasiattn train rank --preset wikiqa --run runs/wikiqa --vectors glove.6B.100d.txt\n"
    "quasiattn train translate --source mine.en --target mine.de --run runs/mine\n"
    "\n"
    "Started again after an interruption, the same command continues the run."
)
@makes_task
@click.option(
    "--run",
    "path",
    required=True,
    type=TensorFlowPath(),
    help="Folder of the run; created if missing.",
)
@POLICY
@click.option(
    "--strategy",
    default="one",
    show_default=True,
    help="Distribution: one; mirrored over all devices; or multi-worker, "
    "over the processes that TF_CONFIG names.",
)
@QUIET
@click.pass_obj
def train(
    arguments: Sequence[str], made: tasks.Task, path: Path, policy: str, strategy: str, quiet: bool
) -> None:
    """Train TASK in a run folder, or continue an interrupted run."""
    from keras_quasiattn import training

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
    epilog="quasiattn tune classify --preset trec --model bilstm_gated --to searches/trec "
    "--trials 20 --folds 5\n"
    "quasiattn tune pairs --data my.tsv --model siamese_both --to searches/mine "
    "--method hyperband\n"
    "quasiattn tune classify --preset trec --to searches/units --try model.units=50,100\n"
    "\n"
    "Started again after an interruption, the same command continues the search. "
    "Several processes share\n"
    "one search: KERASTUNER_TUNER_ID (chief, tuner0, tuner1 ...), KERASTUNER_ORACLE_IP, "
    "KERASTUNER_ORACLE_PORT."
)
@makes_task
@click.option(
    "--to",
    "path",
    required=True,
    type=TensorFlowPath(),
    help="Folder of the search; created if missing. The best run will be in its folder `best`.",
)
@click.option(
    "--try",
    "wanted",
    multiple=True,
    metavar="NAME=VALUES",
    help="Search this option over values separated by commas; repeatable. "
    "Default the papers' choices.",
)
@click.option(
    "--method", default="random", show_default=True, help="random, bayesian or hyperband."
)
@click.option(
    "--trials", default=10, show_default=True, help="Number of trials; Hyperband has its own."
)
@click.option("--folds", default=1, show_default=True, help="Parts of a cross-validation.")
@POLICY
@QUIET
@click.pass_obj
def tune(
    arguments: Sequence[str],
    made: tasks.Task,
    path: Path,
    wanted: tuple[str, ...],
    method: str,
    trials: int,
    folds: int,
    policy: str,
    quiet: bool,
) -> None:
    """Search TASK's options, scored on the validation data, and keep the best run."""
    from keras_quasiattn import tuning

    chosen = dict(assignments("--try", wanted, "model.units=50,100")) if wanted else None
    best = tuning.search(
        made,
        tuning.search_space(made, chosen),
        path,
        method=method,
        trials=trials,
        folds=folds,
        policy=policy,
        progress=not quiet,
        command=["quasiattn", *arguments],
    )
    if best is not None:
        click.echo(json.dumps({"run": str(best.path), **best.metrics(), **best.noted}))
