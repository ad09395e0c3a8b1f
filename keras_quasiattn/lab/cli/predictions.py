"""`quasiattn predict` and `show`: answers to texts, and whether they are right."""

import collections
import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from keras_quasiattn.errors import UserError
from keras_quasiattn.files import write_json_lines
from keras_quasiattn.lab.cli.arguments import COLUMNS, FILE, PATH, RUN, columns_of, lines_of
from keras_quasiattn.lab.cli.layout import Command
from keras_quasiattn.lab.cli.loading import finished_run, waiting

if TYPE_CHECKING:
    from keras_quasiattn.lab.tasks import Task

Rows = list[tuple[str, str | None]]


@click.command(
    cls=Command,
    epilog="quasiattn predict runs/mlu-coda 'x=85,y=-52,y-x'\n"
    "quasiattn predict runs/mlu-coda - < questions.txt\n"
    "quasiattn predict runs/mine --data new.csv --columns text=review\n"
    "quasiattn predict runs/mine --data my-test.tsv --errors mistakes.jsonl\n"
    "quasiattn predict runs/multi30k 'Two dogs run.' --weights\n"
    "quasiattn predict runs/snli $'A man plays a guitar.\\tA man makes music.'",
)
@RUN
@click.argument("inputs", nargs=-1)
@click.option(
    "--data",
    type=PATH,
    help="Answer the rows of this table. With a column `label`, say if the answers are right.",
)
@COLUMNS
@click.option(
    "--errors",
    type=FILE,
    help="Write the wrong answers to this file of JSON lines, the most confident first.",
)
@click.option("--weights", is_flag=True, help="Give tokens and where the model looked, too.")
def predict(
    run: Path,
    inputs: tuple[str, ...],
    data: Path | None,
    columns: str | None,
    errors: Path | None,
    weights: bool,
) -> None:
    """Print the answers of the finished run in folder RUN, one JSON object per input.

    '-' reads inputs from standard input, one per line.
    """
    if bool(inputs) == bool(data):
        raise click.UsageError("give either texts (or '-', for standard input) or --data FILE")
    if data is None and (columns or errors):
        raise click.UsageError("--columns and --errors need --data FILE")
    if data is not None and not data.exists():
        raise UserError(f"cannot read {data}: No such file or directory")
    names = columns_of(columns) if columns else None
    folder, made = finished_run(run)
    rows: Rows = [(text, None) for text in lines_of(inputs)]
    if data is not None:
        rows = _rows_of(made, data, names)
    answers = answers_to(folder, made, [text for text, _ in rows], explained=weights)
    if data is not None:
        _look_at_labels(data, answers, [label for _, label in rows if label])
    if made.answer_names is not None and not weights:
        answers = [{name: one[name] for name in made.answer_names} for one in answers]
    answers = [_judged(one, label) for one, (_, label) in zip(answers, rows, strict=True)]
    if errors is not None:
        _write_errors(errors, answers)
    for answer in answers:
        click.echo(json.dumps(answer))


@click.command(
    cls=Command,
    epilog="quasiattn show runs/trec 'What is the capital of Yugoslavia ?'\n"
    "quasiattn show runs/trec - < texts.txt",
)
@RUN
@click.argument("inputs", nargs=-1, required=True)
def show(run: Path, inputs: tuple[str, ...]) -> None:
    """Show the gate and weight that the finished run in folder RUN gives every token of a text.

    For a Transformer, the weight is the mean that a token receives in the last layer. '-' reads
    texts from standard input, one per line. `predict --weights` gives the answers as data.
    """
    folder, made = finished_run(run)
    answers = answers_to(folder, made, lines_of(inputs))
    from keras_quasiattn.lab.report.model_view import with_received
    from keras_quasiattn.report import token_table

    if any("tokens" not in answer for answer in answers):
        raise UserError(
            f"the answers of {run} have no tokens to show: use predict, or for the matrices "
            f"quasiattn report {run} --to page.html --input TEXT"
        )
    model = folder.load_model(made)
    for answer in answers:
        click.echo(token_table(with_received(made, model, answer)))


def answers_to(
    folder: Any, made: "Task", inputs: Iterable[str], explained: bool = False
) -> list[dict[str, Any]]:
    """Return the answers of a finished run, after checking all inputs."""
    texts = list(inputs)
    for text in texts:
        made.check_input(text)
    with waiting("answering"):
        return (made.explain if explained else made.predict)(folder.load_model(made), texts)


def _rows_of(made: "Task", data: Path, names: dict[str, str] | None) -> Rows:
    from keras_quasiattn.lab.data import read_inputs

    if not made.input_columns:
        raise UserError(
            f"--data {str(data)!r}: task {made.name} answers no tables: "
            "give its inputs as texts, or as lines of standard input"
        )
    known = made.options.data.get("columns") if names is None else names
    return read_inputs(data, made.input_columns, known)


def _look_at_labels(data: Path, answers: list[dict[str, Any]], labels: list[str]) -> None:
    """Warn about labels that differ from each other or from a class only in case or spaces."""
    from keras_quasiattn.lab.data.labelled_texts import warn_of_spellings

    classes = dict.fromkeys((str(name) for one in answers[:1] for name in one["classes"]), 0)
    counts = collections.Counter(label.strip() for label in labels)
    warn_of_spellings(str(data), {**classes, **counts})


def _judged(answer: dict[str, Any], label: str | None) -> dict[str, Any]:
    """Return the answer, and whether it is right if the row has a label."""
    if label is None or not label.strip():
        return answer
    return {**answer, "expected": label.strip(), "right": answer["label"] == label.strip()}


def _write_errors(file: Path, answers: list[dict[str, Any]]) -> None:
    judged = [answer for answer in answers if "right" in answer]
    if not judged:
        raise UserError("--errors needs a column `label` in the table")
    wrong = sorted(
        (answer for answer in judged if not answer["right"]),
        key=lambda answer: -max(answer["probabilities"]),
    )
    write_json_lines(file, wrong)
    click.echo(f"{len(wrong)} of {len(judged)} answers are wrong: see {file}", err=True)
