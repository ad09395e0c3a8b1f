"""The commands that make runs: `quasiattn tasks`, `train` and `tune`."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from keras_quasiattn._version import __version__
from keras_quasiattn.lab.cli.arguments import DATA_DIR, PATH, POLICY, QUIET, RUN, assignments
from keras_quasiattn.lab.cli.completion import names
from keras_quasiattn.lab.cli.layout import Group, TaskCommand
from keras_quasiattn.lab.cli.loading import load
from keras_quasiattn.lab.cli.task_list import list_tasks
from keras_quasiattn.lab.cli.task_options import makes_task
from keras_quasiattn.lab.training.config import METHODS, STRATEGIES, read_config

if TYPE_CHECKING:
    from keras_quasiattn.lab.tasks import Task
    from keras_quasiattn.lab.training import RunFolder


@click.group(
    cls=Group,
    context_settings={"show_default": True},
    epilog="quasiattn tasks\n"
    "quasiattn train mlu --model coda --run runs/mlu-coda\n"
    "quasiattn evaluate runs/mlu-coda\n"
    "quasiattn predict runs/mlu-coda 'x=85,y=-52,y-x'\n"
    "quasiattn export runs/mlu-coda --to saved_models",
)
@click.version_option(__version__, prog_name="quasiattn")
def cli() -> None:
    """Train, measure and export quasi-attention models, whose weights add, subtract or delete."""


cli.add_command(list_tasks)


@cli.command(
    cls=TaskCommand,
    epilog="quasiattn train mlu --model coda --run runs/mlu-coda\n"
    "quasiattn train mlu --model softmax --run runs/mlu-softmax --seed 1 "
    "--set training.steps=3000\n"
    "quasiattn train mlu --model coda --preset paper --run runs/paper --policy mixed_bfloat16\n"
    "quasiattn train classify --preset trec --run runs/trec --vectors glove.6B.100d.txt\n"
    "quasiattn train classify --data my.tsv --run runs/mine\n"
    "quasiattn train classify --data my.tsv --run runs/mine --encoder bert_tiny_en_uncased\n"
    "quasiattn train rank --preset wikiqa --run runs/wikiqa --vectors glove.6B.100d.txt\n"
    "quasiattn train translate --source mine.en --target mine.de --run runs/mine\n"
    "\n"
    "After an interruption, the same command continues the run. With another training.steps,\n"
    "it continues to that number.",
)
@makes_task
@click.option(
    "--run", "path", required=True, type=PATH, help="Folder of the run; created if missing."
)
@POLICY
@click.option(
    "--strategy",
    default="one",
    shell_complete=names(STRATEGIES),
    help="Distribution: one; mirrored over all devices; or multi-worker, "
    "over the processes that TF_CONFIG names.",
)
@QUIET
@click.pass_obj
def train(arguments: Sequence[str], made: "Task", path: Path, **options: Any) -> None:
    """Train TASK in a run folder, or continue an interrupted run."""
    from keras_quasiattn.lab import training

    _say(training.train(made, path, **options, command=["quasiattn", *arguments]))


@cli.command(epilog="quasiattn finish runs/mine")
@RUN
@DATA_DIR
@QUIET
def finish(run: Path, data_dir: Path, progress: bool) -> None:
    """End the run in folder RUN early: its best checkpoint becomes the finished model.

    The same train command as before still continues the run.
    """
    read_config(run)
    load()
    from keras_quasiattn.lab import training

    _say(training.finish(run, data_dir, progress=progress))


def _say(folder: "RunFolder") -> None:
    click.echo(json.dumps({"run": str(folder.path), **folder.metrics(), **folder.noted}))


@cli.command(
    cls=TaskCommand,
    epilog="quasiattn tune classify --preset trec --model bilstm_gated --to searches/trec "
    "--trials 20 --folds 5\n"
    "quasiattn tune pairs --data my.tsv --model siamese_both --to searches/mine "
    "--method hyperband\n"
    "quasiattn tune classify --preset trec --to searches/units --try model.units=50,100\n"
    "\n"
    "After an interruption, the same command continues the search. "
    "Several processes share\n"
    "one search: KERASTUNER_TUNER_ID (chief, tuner0, tuner1 ...), KERASTUNER_ORACLE_IP, "
    "KERASTUNER_ORACLE_PORT.",
)
@makes_task
@click.option(
    "--to",
    "path",
    required=True,
    type=PATH,
    help="Folder of the search; created if missing. The best run will be in its folder `best`.",
)
@click.option(
    "--try",
    "wanted",
    multiple=True,
    metavar="NAME=VALUES",
    help="Search this option over values separated by commas; repeatable. "
    "Default: the papers' choices.",
)
@click.option(
    "--method",
    default="random",
    shell_complete=names(METHODS),
    help="random, bayesian or hyperband.",
)
@click.option("--trials", default=10, help="Number of trials; Hyperband has its own.")
@click.option("--folds", default=1, help="Parts of a cross-validation.")
@POLICY
@QUIET
@click.pass_obj
def tune(
    arguments: Sequence[str], made: "Task", path: Path, wanted: tuple[str, ...], **options: Any
) -> None:
    """Search TASK's options, scored on the validation data, and keep the best run."""
    from keras_quasiattn import tuning

    chosen = dict(assignments("--try", wanted, "model.units=50,100")) if wanted else None
    space, command = tuning.search_space(made, chosen), ["quasiattn", *arguments]
    best = tuning.search(made, space, path, **options, command=command)
    if best is not None:
        _say(best)
