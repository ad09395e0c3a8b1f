"""`quasiattn evaluate`: metrics of a finished run next to simple baselines."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.cli.arguments import COLUMNS, COUNT, DATA_DIR, FILE, RUN, columns_of
from keras_quasiattn.lab.cli.completion import names
from keras_quasiattn.lab.cli.layout import Command
from keras_quasiattn.lab.cli.loading import finished_run, waiting

if TYPE_CHECKING:
    from keras_quasiattn.lab.report.measured import Reached
    from keras_quasiattn.lab.tasks import Task


@click.command(
    cls=Command,
    epilog="quasiattn evaluate runs/mlu-coda\n"
    "quasiattn evaluate runs/mlu-coda --split validation --limit 1000\n"
    "quasiattn evaluate runs/mine --data new.csv --columns text=review\n"
    "quasiattn evaluate runs/mlu-coda --json\n"
    "quasiattn evaluate runs/mlu-coda --record results/mlu.jsonl",
)
@RUN
@click.option(
    "--split",
    shell_complete=names(("test", "validation", "train")),
    help="Split of the data to measure on; default: test, or validation without a test file.",
)
@click.option(
    "--data",
    metavar="FILE",
    help="Measure on this file instead; it has the form and the columns of the training data.",
)
@COLUMNS
@click.option("--limit", type=COUNT, help="Number of examples; default: all.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
@click.option(
    "--record", type=FILE, help="Add a row to this file of JSON lines, for a table of results."
)
@DATA_DIR
def evaluate(
    run: Path,
    split: str | None,
    data: str | None,
    columns: str | None,
    limit: int | None,
    as_json: bool,
    record: Path | None,
    data_dir: Path,
) -> None:
    """Measure the finished run in folder RUN and save the metrics there.

    Prints the metrics next to those of the most frequent class and of a bag of words, with 95%
    intervals: Wilson's for shares, a bootstrap over the examples for other means.
    """
    if data is not None and split is not None:
        raise click.UsageError("give either --split or --data FILE")
    if columns and data is None:
        raise click.UsageError("--columns needs --data FILE")
    renamed = columns_of(columns) if columns else None
    folder, made = finished_run(run, data_dir)
    from keras_quasiattn.lab import training
    from keras_quasiattn.lab.report.measured import Reached
    from keras_quasiattn.lab.tasks.batches import FILE
    from keras_quasiattn.lab.tasks.measured import flat_figures
    from keras_quasiattn.lab.tasks.subtraction import subtraction

    if split is None and data is None:
        split = made.measured_split
        if split != "test":
            note = "the run has no test file: measuring on the validation split"
            click.echo(f"{note}, which also chose the checkpoint", err=True)
    name, part = (data, FILE) if data is not None else (split, split)
    assert name is not None and part is not None  # noqa: S101 (for the type checker)
    with waiting(f"measuring {run} on {name}"):
        if data is not None:
            made.use_file(data, renamed)
        else:
            made.prepare()
        model = folder.load_model(made)
        measured = made.measure(model, part, limit)
        negative = subtraction(made, model, part, limit, measured)
        measured = measured._replace(figures={**measured.figures, **negative})
    with waiting(f"measuring the baselines on {name}"):
        baselines = _baselines(made, part, limit, data is not None)
    reached = Reached(str(run), made, name, measured, baselines)
    figures = {**measured.figures, **flat_figures(baselines)}
    folder.write_metrics(name, figures)
    if record is not None:
        training.append_result(record, training.result_row(folder, name, figures))
    if as_json:
        whole = {"run": str(run), "split": name, **figures, "intervals": _intervals(reached)}
        click.echo(json.dumps({**whole, **folder.noted}))
    else:
        click.echo(_tables(reached))
    for line in made.doubts(measured.figures, baselines, name):
        click.echo(line, err=True)


def _baselines(made: "Task", part: str, limit: int | None, of_file: bool) -> Any:
    """Return the baselines, which learn from the training data.

    When measuring a file, the training data may be missing.
    """
    try:
        if of_file and (missing := made.missing_data()):
            raise UserError(missing)
        made.prepare()
        return made.measure_baselines(part, limit)
    except UserError as error:
        if not of_file:
            raise
        click.echo(f"no baselines to compare with: {error}", err=True)
        return {}


def _intervals(reached: "Reached") -> dict[str, list[float]]:
    """Return the 95% intervals by the names of the figures."""
    models = {"": reached.measured, **{f"{name}_": one for name, one in reached.baselines.items()}}
    return {
        f"{prefix}{figure}": list(interval)
        for prefix, measured in models.items()
        for figure in measured.figures
        if (interval := reached.interval(measured, figure))
    }


def _tables(reached: "Reached") -> str:
    """Return tables of metrics with baselines, of other metrics, and of metrics by class."""
    from keras_quasiattn.lab.report.measured import beside_baselines, by_name, other_figures

    count = f"{reached.measured.examples:,} examples"
    title = f"{reached.task.name}, {reached.split}: {count}; in parentheses, the 95% interval"
    blocks = [f"{title}\n\n{_aligned(beside_baselines([reached]))}"]
    if others := other_figures([reached]):
        blocks.append(_aligned(others[1:]))
    for name, table in by_name(reached.measured.figures).items():
        blocks.append(_aligned([[name, *table[0][1:]], *table[1:]]))
    return "\n\n".join(blocks)


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    from keras_quasiattn.lab.comparison.tables import aligned
    from keras_quasiattn.report.token_table import readable

    return aligned([[readable(cell, _WIDEST) for cell in row] for row in rows])


_WIDEST = 80
