"""The commands that list tasks and make runs."""

import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from keras_quasiattn._version import __version__
from keras_quasiattn.errors import UserError
from keras_quasiattn.files import finite
from keras_quasiattn.lab import tasks
from keras_quasiattn.lab.cli.arguments import (
    COUNT,
    DATA_DIR,
    OUTPUT_FOLDER,
    PATH,
    POLICY,
    QUIET,
    RUN,
    assignments,
    complete_model,
    complete_preset,
    complete_task,
    makes_task,
    names,
)
from keras_quasiattn.lab.cli.layout import (
    Command,
    Group,
    TaskCommand,
    write_models_and_presets,
    write_names,
)
from keras_quasiattn.lab.cli.loading import load
from keras_quasiattn.lab.tasks.attention_options import models_with_attention
from keras_quasiattn.lab.tasks.catalogue import OPTIONS, chosen_options, usual_model
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


@cli.command(
    "tasks",
    cls=TaskCommand,
    epilog="quasiattn tasks\n"
    "quasiattn tasks classify\n"
    "quasiattn tasks classify --preset own --model bilstm_gated",
)
@click.argument("task", required=False, shell_complete=complete_task)
@click.option(
    "--preset",
    shell_complete=complete_preset,
    help="Preset whose options to list; default: the first.",
)
@click.option(
    "--model",
    shell_complete=complete_model,
    help="Model whose options to list; default: the preset's.",
)
@click.pass_context
def list_tasks(
    context: click.Context, task: str | None, preset: str | None, model: str | None
) -> None:
    """List the tasks, or the models, presets and options of TASK."""
    formatter = context.make_formatter()
    if task is not None:
        _write_one(formatter, task, preset, model)
    elif preset or model:
        raise UserError("--preset and --model need a task: quasiattn tasks TASK")
    else:
        for name in tasks.available():
            entry = tasks.describe(name)
            formatter.write_text(f"{name}: {entry.summary}")
            with formatter.indentation():
                listed = (("models", entry.models), ("presets", entry.presets))
                formatter.write_dl([(kind, ", ".join(some)) for kind, some in listed])
        formatter.write("quasiattn tasks TASK explains them, and lists the options.\n")
    click.echo(formatter.getvalue().rstrip("\n"))


def _write_one(
    formatter: click.HelpFormatter, name: str, preset: str | None, model: str | None
) -> None:
    task = tasks.describe(name)
    preset = preset or next(iter(task.presets))
    model = model or usual_model(task, preset)
    options = chosen_options(
        name, task, preset=preset, model=model, seed=0, overrides={}
    ).used_options()
    formatter.write_text(f"{name}: {task.summary}")
    write_models_and_presets(formatter, name)
    write_names(
        formatter,
        f"Options of the preset {preset} and the model {model} (--set NAME=VALUE)",
        {f"{option}={value}": OPTIONS.get(option, "") for option, value in options.items()},
    )


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
    said = {"run": str(folder.path), **folder.metrics(), **folder.noted}
    click.echo(json.dumps(finite(said)))


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
    **OUTPUT_FOLDER,
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
@click.option("--trials", default=10, help="Number of trials; hyperband sets its own.")
@click.option("--folds", default=1, help="Folds of a cross-validation; 1: use the validation data.")
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


_SEVERAL = ("--attention", "--rates")  # options that take all arguments up to the next option
_PROCESSES = click.option(
    "--processes", type=COUNT, help="Number of simultaneous runs; default: by cores and memory."
)


@click.command(
    cls=Command,
    epilog="quasiattn compare examples/papers/coda.toml --show\n"
    "quasiattn compare examples/papers/coda.toml --show --tables 2-wikiqa --tables 2-trecqa\n"
    "quasiattn compare examples/papers/ganet.toml --tables 2 --vectors glove.6B.100d.txt",
)
@click.argument("files", nargs=-1, required=True, type=PATH)
@click.option("--show", is_flag=True, help="Only show what the records have; train nothing.")
@click.option("--tables", multiple=True, metavar="NAME", help="Only this table; repeatable.")
@click.option("--vectors", type=PATH, help="Word vectors, for the models that read words.")
@click.option("--runs", default="runs/tables", **OUTPUT_FOLDER, help="Folder of the run folders.")
@_PROCESSES
@DATA_DIR
@QUIET
@click.pass_obj
def compare_files(
    arguments: Sequence[str],
    files: Sequence[Path],
    show: bool,
    tables: Sequence[str],
    **options: Any,
) -> None:
    """Train the missing runs of the tables in FILES, and show the tables.

    FILES are TOML. Each table has rows of models and data, options, seeds, the figures to show, and
    the file of its records; a run that is recorded is not trained again.
    """
    from keras_quasiattn.lab.comparison.experiments import Job, read_experiments
    from keras_quasiattn.lab.comparison.tables import Recorded, terminal
    from keras_quasiattn.lab.training.config import part_name

    known = [table for file in files for table in read_experiments(file)]
    for name in tables:
        if name not in (names := [table.name for table in known]):
            raise UserError.unknown("table", name, names)
    chosen = [table for table in known if not tables or table.name in tables]
    failed: dict[Job, str] = {}
    if not show:
        load()
        from keras_quasiattn.lab.comparison.engine import train_tables

        failed = train_tables(chosen, **options, command=["quasiattn", *arguments])
    recorded: dict[Path, Recorded] = {}
    for table in chosen:
        if table.records not in recorded:
            keys = [run.row.key(part_name(run.split, run.limit)) for run in failed]
            recorded[table.records] = Recorded(table.records, keys)
        click.echo(terminal(table, recorded[table.records]) + "\n")
    _refuse_failed({run.path.name: why for run, why in failed.items()})


def _refuse_failed(errors: Mapping[str, str]) -> None:
    """Raise a `UserError` that counts failed runs and names the first, unless there are none."""
    if errors:
        name, why = next(iter(errors.items()))
        runs = "1 run" if len(errors) == 1 else f"{len(errors)} runs"
        raise UserError(f"{runs} failed; {name}: {why}")


class CompareCommand(TaskCommand):
    """A command some of whose options take several values: `--attention softmax coda`."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> click.Context:
        """Pass TOML files to the command that reads them."""
        if any(one.endswith(".toml") and not one.startswith("-") for one in args):
            return compare_files.make_context(info_name, args, parent, **extra)
        return super().make_context(info_name, args, parent, **extra)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Repeat the option before each of its values."""
        return super().parse_args(ctx, list(_repeated(args)))


def _repeated(arguments: Sequence[str]) -> Iterator[str]:
    option, first = None, False
    for argument in arguments:
        if argument.startswith("--"):
            option, first = (argument if argument in _SEVERAL else None), True
        elif option is not None and not first:
            yield option
        else:
            first = False
        yield argument


@cli.command(
    cls=CompareCommand,
    epilog="quasiattn compare classify --preset letters --attention coda sigmoid sparsemax\n"
    "quasiattn compare classify --data my.tsv --test my-test.tsv --to comparisons/mine\n"
    "quasiattn compare pairs --data my.tsv --attention all --seeds 5\n"
    "quasiattn compare rank --preset wikiqa --vectors glove.6B.100d.txt --rates 0.0003 0.001\n"
    "quasiattn compare examples/papers/coda.toml --show   # the tables in a file\n"
    "\n"
    "After an interruption, the same command continues. With more seeds, rates or attentions,\n"
    "it adds the missing runs.",
)
@functools.partial(makes_task, usual_model=lambda task, preset: models_with_attention(task)[0])
@click.option(
    "--attention",
    "attentions",
    multiple=True,
    default=("softmax", "coda", "sigmoid"),
    metavar="NAME ...",
    show_default=False,
    help="Attentions to compare with softmax, or `all`; default: coda and sigmoid.",
)
@click.option("--seeds", default=3, help="Number of seeds per attention.")
@click.option(
    "--rates",
    type=float,
    multiple=True,
    metavar="RATE ...",
    help="Learning rates; each attention gets its best by the validation data. Default: the "
    "preset's, a third of it, and three times it.",
)
@click.option(
    "--to",
    "folder",
    **OUTPUT_FOLDER,
    help="Folder of the comparison; default: comparisons/TASK-DATA.",
)
@click.option("--limit", type=COUNT, help="Number of examples to measure on; default: all.")
@_PROCESSES
@POLICY
@QUIET
@click.pass_obj
def compare(
    arguments: Sequence[str],
    made: "Task",
    attentions: tuple[str, ...],
    folder: Path | None,
    **options: Any,
) -> None:
    """Compare attentions on TASK: equal options, each at its best rate, with a verdict.

    Every attention is trained at the same learning rates, and then with the same seeds at its best
    rate by the validation data. The table shows differences to softmax, with 95% intervals over
    seeds and test items, the result of a bag of words, and costs. For TOML files instead of TASK,
    see `quasiattn compare FILE --help`.
    """
    from keras_quasiattn.attention.base import ATTENTIONS
    from keras_quasiattn.lab.comparison.of_task import compare_task

    names = [one for given in attentions for one in given.split(",")]
    if "all" in names:
        names = sorted(ATTENTIONS)
    given = made.options.options()
    if made.measured_split != "test" and "data.test_share" in given:
        # A fifth of the user's texts are held out for the end.
        config = {**made.config(), "options": {**given, "data.test_share": 0.2}}
        made = type(made).from_config(config, made.data_dir)
    train = given.get("data.train")
    data = Path(str(train).split(",")[0]).stem if train else made.preset
    folder = folder or Path("comparisons") / f"{made.name}-{data}"
    comparison = compare_task(made, folder, names, **options, command=["quasiattn", *arguments])
    click.echo(comparison.table())
    if comparison.best is None:
        raise UserError(f"every run failed: see {folder / 'processes.log'}")
    page = folder / "comparison.html"
    missing = "none; a page needs pip install 'keras-quasiattn[report]'"
    click.echo(f"\npage: {page if page.is_file() else missing}\nbest run: {folder / 'best'}")
    _refuse_failed(
        {
            f"{entry.name}, seed {seed}": why
            for entry in comparison.entries
            for seed, why in entry.errors.items()
        }
    )
