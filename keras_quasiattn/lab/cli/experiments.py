"""`quasiattn compare FILE`: sets of runs that a TOML file describes."""

from collections.abc import Sequence
from pathlib import Path

import click

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.cli.arguments import DATA_DIR, QUIET, TensorFlowPath
from keras_quasiattn.lab.cli.layout import Command
from keras_quasiattn.lab.cli.loading import load


@click.command(
    cls=Command,
    epilog="quasiattn compare examples/papers/coda.toml --show\n"
    "quasiattn compare examples/papers/coda.toml --show --tables 2-wikiqa --tables 2-trecqa\n"
    "quasiattn compare examples/papers/ganet.toml --tables 2 --vectors glove.6B.100d.txt",
)
@click.argument("files", nargs=-1, required=True, type=TensorFlowPath())
@click.option("--show", is_flag=True, help="Only show what the records have; train nothing.")
@click.option("--tables", multiple=True, metavar="NAME", help="Only this table; repeatable.")
@click.option(
    "--vectors", type=TensorFlowPath(), help="Word vectors, for the models that read words."
)
@click.option(
    "--runs",
    type=TensorFlowPath(),
    default="runs/tables",
    show_default=True,
    help="Folder of the run folders.",
)
@click.option(
    "--processes", type=click.IntRange(min=1), help="Runs at once; default as the cores allow."
)
@DATA_DIR
@QUIET
@click.pass_obj
def compare_files(
    arguments: Sequence[str],
    files: Sequence[Path],
    show: bool,
    tables: Sequence[str],
    vectors: Path | None,
    runs: Path,
    processes: int | None,
    data_dir: Path,
    quiet: bool,
) -> None:
    """Train the runs that the tables in FILES lack, and show the tables.

    FILES are TOML. Each table has rows of models and data, options, seeds, the figures to show, and
    the file of its records; a run that is recorded is not trained again.
    """
    from keras_quasiattn.lab.comparison.experiments import read_experiments
    from keras_quasiattn.lab.comparison.outcomes import Recorded
    from keras_quasiattn.lab.comparison.tables import terminal

    known = [table for file in files for table in read_experiments(file)]
    for name in tables:
        if name not in (names := [table.name for table in known]):
            raise UserError.unknown("table", name, names)
    chosen = [table for table in known if not tables or table.name in tables]
    failed = {}
    if not show:
        load()
        from keras_quasiattn.lab.comparison.of_files import train_tables

        failed = train_tables(
            chosen,
            runs,
            data_dir=data_dir,
            vectors=vectors,
            processes=processes,
            progress=not quiet,
            command=["quasiattn", *arguments],
        )
    recorded: dict[Path, Recorded] = {}
    for table in chosen:
        if table.records not in recorded:
            recorded[table.records] = Recorded(table.records)
        click.echo(terminal(table, recorded[table.records]) + "\n")
    if failed:
        name, why = next(iter(failed.items()))
        raise UserError(f"{len(failed)} runs failed; {name}: {why}")
