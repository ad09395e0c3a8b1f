"""`quasiattn compare`: sets of runs that a TOML file describes."""

from collections.abc import Sequence
from pathlib import Path

import click

from keras_quasiattn.cli.arguments import TensorFlowPath
from keras_quasiattn.cli.layout import Command
from keras_quasiattn.errors import UserError


@click.command(
    cls=Command,
    epilog="quasiattn compare examples/papers/coda.toml --show\n"
    "quasiattn compare examples/papers/coda.toml --show --tables 2-wikiqa --tables 2-trecqa",
)
@click.argument("files", nargs=-1, required=True, type=TensorFlowPath())
@click.option("--show", is_flag=True, required=True, help="Only show what the records have.")
@click.option("--tables", multiple=True, metavar="NAME", help="Only this table; repeatable.")
def compare(files: Sequence[Path], show: bool, tables: Sequence[str]) -> None:
    """Show the tables that FILES describe, from their records."""
    show_tables(files, tables)


def show_tables(files: Sequence[Path], names: Sequence[str]) -> None:
    """Print the tables of TOML files from their records; those with these names, if any are given.

    Raises:
        UserError: a file is wrong, or no file has a table of such a name.
    """
    from keras_quasiattn.comparison.experiments import read_experiments
    from keras_quasiattn.comparison.outcomes import Recorded
    from keras_quasiattn.comparison.tables import terminal

    tables = [table for file in files for table in read_experiments(file)]
    for name in names:
        if name not in (known := [table.name for table in tables]):
            raise UserError.unknown("table", name, known)
    recorded: dict[Path, Recorded] = {}
    for table in tables:
        if not names or table.name in names:
            if table.records not in recorded:
                recorded[table.records] = Recorded(table.records)
            click.echo(terminal(table, recorded[table.records]) + "\n")
