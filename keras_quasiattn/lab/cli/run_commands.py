"""The commands that read runs and exported models."""

import collections
import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from keras_quasiattn.errors import UserError
from keras_quasiattn.files import (
    check_writable,
    finite,
    read_json,
    read_json_lines,
    write_json_lines,
)
from keras_quasiattn.lab.cli.arguments import (
    COLUMNS,
    COUNT,
    DATA_DIR,
    FILE,
    OUTPUT_FILE,
    OUTPUT_FOLDER,
    PATH,
    RUN,
    columns_of,
    lines_of,
    names,
)
from keras_quasiattn.lab.cli.commands import cli
from keras_quasiattn.lab.cli.loading import finished_run, load, waiting
from keras_quasiattn.lab.tasks.catalogue import CATALOGUE
from keras_quasiattn.lab.training.config import part_name, read_config

if TYPE_CHECKING:
    from keras_quasiattn.lab.report.measured import Reached
    from keras_quasiattn.lab.tasks import Task
    from keras_quasiattn.lab.training import RunFolder

Rows = list[tuple[str, str | None]]
_WIDEST = 80  # characters in a cell


@cli.command(
    epilog="quasiattn export runs/mlu-coda\n"
    "quasiattn export runs/mlu-coda --to saved_models --name arithmetic --version 2\n"
    "quasiattn export runs/snli --target onnx\n"
    "quasiattn export runs/trec --target openvino --quantize int8\n"
    "quasiattn export runs/snli --compile"
)
@RUN
@click.option(
    "--to", "place", default="saved_models", **OUTPUT_FOLDER, help="Folder of all exported models."
)
@click.option("--target", default="savedmodel", help="savedmodel, onnx, litert or openvino.")
@click.option("--name", help="Name of the model; default: the run folder's name.")
@click.option("--version", type=int, help="Version number; default: the next one.")
@click.option(
    "--quantize", "mode", help="int8: round weights to 8 bits; report the metrics before and after."
)
@click.option(
    "--limit",
    type=COUNT,
    help="Number of validation examples that --quantize measures on; default: 1000.",
)
@click.option(
    "--compile",
    "compiled",
    is_flag=True,
    help="Let XLA compile the SavedModel when it is loaded; for servers on CPUs.",
)
@DATA_DIR
def export(
    run: Path,
    place: Path,
    target: str,
    mode: str | None,
    limit: int | None,
    compiled: bool,
    data_dir: Path,
    **options: Any,
) -> None:
    """Export the finished run in folder RUN for TensorFlow Serving or another runtime.

    Prints the path of the new folder. A SavedModel takes strings and returns answers; models.config
    and batching_parameters.txt next to its folder configure a server for all models. The other
    targets take token ids and return logits; their folder is named after the model and the target.
    """
    if limit is not None and mode is None:
        raise click.UsageError("--limit needs --quantize")
    folder, made = finished_run(run, data_dir)
    from keras_quasiattn import serving
    from keras_quasiattn.serving.server_files import ABOUT, new_version

    if target != "savedmodel":
        if compiled:
            raise UserError(f"--compile is for --target savedmodel: got --target {target}")
        serving.need_runtime(target)
    if mode:  # before minutes of measuring
        ending = "" if target == "savedmodel" else f"-{target}"
        given = options["name"] or folder.path.resolve().name
        new_version(place, given + ending, options["version"])
    with waiting("exporting"):
        notes: list[str] = []
        quantized = serving.quantize(folder, made, mode, limit=limit or 1000) if mode else None
        options["quantized"] = quantized
        if target == "savedmodel":
            version_folder = serving.export(folder, made, place, compiled=compiled, **options)
            lines = [str(version_folder)]
            notes = read_json(version_folder / ABOUT).get("notes", [])
        else:
            conversion = serving.convert(folder, made, place, target, **options)
            lines = [str(conversion.path), conversion.line()]
    click.echo("\n".join([*lines, *(quantized.lines() if quantized else ())]))
    for note in notes:
        click.echo(f"note: {note}", err=True)


@cli.command(
    "serve-check",
    epilog="quasiattn serve-check saved_models/trec/1\n"
    "for version in saved_models/*/[0-9]*; do quasiattn serve-check $version; done",
)
@click.argument("path", type=PATH)
@click.option(
    "--repetitions", type=COUNT, default=100, help="How often each batch is timed at most."
)
def serve_check(path: Path, repetitions: int) -> None:
    """Check the exported version in folder PATH the way a stock model server would load it.

    Loads the model with TensorFlow alone, without Keras, compares its ops with those that a server
    links, repeats the recorded requests, and prints latencies for batches of 1, 8 and 64.
    """
    load()
    from keras_quasiattn import serving

    for line in serving.serve_check(path, repetitions=repetitions):
        click.echo(line)


@cli.command(
    epilog="quasiattn report runs/trec-gated runs/trec-soft --to report.html\n"
    "quasiattn report runs/snli --to snli.html --input $'A man plays.\\tA man makes music.'\n"
    "quasiattn report runs/*-seed? --to all.html --split test --results results/classify.jsonl\n"
    "quasiattn report saved_models/trec/1 --to trec.html --input 'Who was Galileo ?'"
)
@click.argument("runs", nargs=-1, required=True, type=PATH)
@click.option("--to", "target", required=True, **OUTPUT_FILE, help="The HTML page to write.")
@click.option(
    "--input",
    "inputs",
    multiple=True,
    help="A text to show; repeatable. Default: right answers and mistakes of the split.",
)
@click.option(
    "--split",
    help="Split of the data to measure on and show texts from; default: validation, if present.",
)
@click.option(
    "--limit", type=COUNT, default=1000, help="Number of the split's examples to measure on."
)
@click.option(
    "--results",
    type=FILE,
    help="JSON lines of `evaluate --record`: plot their accuracy against density.",
)
@DATA_DIR
def report(runs: tuple[Path, ...], target: Path, **options: Any) -> None:
    """Write one HTML page about the models in folders RUNS: metrics, answers, weights and training.

    RUNS are run folders or exported models. The page compares their metrics with those of a bag of
    words, and shows right answers and mistakes, what attends to what, and the learning curves. Its
    figures are also saved in a folder next to it, as SVG and PNG.
    """
    for run in runs:
        if not (run / "saved_model.pb").is_file():
            read_config(run)
    load()
    from keras_quasiattn.report import write_report

    with waiting("writing the report"):
        page, *figures = write_report(runs, target, **options)
    click.echo(json.dumps({"page": str(page), "figures": len(figures)}))


@cli.command(
    epilog="quasiattn evaluate runs/mlu-coda\n"
    "quasiattn evaluate runs/mlu-coda --split validation --limit 1000\n"
    "quasiattn evaluate runs/mine --data new.csv --columns text=review\n"
    "quasiattn evaluate runs/mlu-coda --json\n"
    "quasiattn evaluate runs/mlu-coda --record results/mlu.jsonl"
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
    "--record", **OUTPUT_FILE, help="Add a row to this file of JSON lines, for a table of results."
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
    if run.is_dir():
        check_writable(run / "metrics.json")
    if record is not None:
        read_json_lines(record)  # rejects other files, such as a table, to which nothing is added
    folder, made = finished_run(run, data_dir)
    if record is not None:
        folder.finished_history()  # which the row needs
    from keras_quasiattn.lab import training
    from keras_quasiattn.lab.report.measured import Reached
    from keras_quasiattn.lab.tasks.batches import FILE
    from keras_quasiattn.lab.tasks.measured import flat_figures
    from keras_quasiattn.lab.tasks.subtraction import subtraction

    if split is None and data is None and made.measured_split != "test":
        note = "the run has no test file: measuring on the validation split"
        click.echo(f"{note}, which also chose the checkpoint", err=True)
    if data is not None:
        name, part = data, FILE
    else:
        name = part = made.measured_split if split is None else split
    with waiting(f"measuring {run} on {name}"):
        if data is not None:
            made.use_file(data, renamed)
        else:
            made.prepare()
            folder.require_same_data(made)
        model = folder.load_model(made)
        measured = made.measure(model, part, limit)
        negative = subtraction(made, model, part, limit, measured)
        measured = measured._replace(figures={**measured.figures, **negative})
    with waiting(f"measuring the baselines on {name}"):
        baselines = _baselines(folder, made, part, limit, data is not None)
    reached = Reached(str(run), made, name, measured, baselines)
    figures = {**measured.figures, **flat_figures(baselines)}
    folder.write_metrics(name, figures, limit)
    if record is not None:
        row = training.result_row(folder, part_name(name, limit), figures)
        training.append_result(record, row)
    if as_json:
        models = {"": measured, **{f"{name}_": one for name, one in baselines.items()}}
        intervals = {
            f"{prefix}{figure}": list(interval)
            for prefix, one in models.items()
            for figure in one.figures
            if (interval := reached.interval(one, figure))
        }
        whole = {"run": str(run), "split": name, **figures, "intervals": intervals}
        click.echo(json.dumps(finite({**whole, **folder.noted})))
    else:
        click.echo(_tables(reached))
    for line in made.doubts(measured.figures, baselines, name):
        click.echo(line, err=True)


def _baselines(
    folder: "RunFolder", made: "Task", part: str, limit: int | None, of_file: bool
) -> Any:
    """Return the baselines, which learn from the training data.

    When measuring a file, the training data may be missing, or others than in training.
    """
    try:
        if of_file and (missing := made.missing_data()):
            raise UserError(missing)
        made.prepare()
        folder.require_same_data(made)
        return made.measure_baselines(part, limit)
    except UserError as error:
        if not of_file:
            raise
        click.echo(f"no baselines to compare with: {error}", err=True)
        return {}


def _tables(reached: "Reached") -> str:
    """Return tables of metrics with baselines, of other metrics, and of metrics by class."""
    from keras_quasiattn.lab.comparison.tables import aligned
    from keras_quasiattn.lab.report.measured import beside_baselines, by_name, other_figures
    from keras_quasiattn.report.token_table import readable

    count = f"{reached.measured.examples:,} examples"
    title = f"{reached.task.name}, {reached.split}: {count}; in parentheses, the 95% interval"
    tables = [beside_baselines([reached]), other_figures([reached])[1:]]
    for name, table in by_name(reached.measured.figures).items():
        tables.append([[name, *table[0][1:]], *table[1:]])
    cells = ([[readable(cell, _WIDEST) for cell in row] for row in rows] for rows in tables if rows)
    return "\n\n".join([title, *map(aligned, cells)])


@cli.command(
    epilog="quasiattn predict runs/mlu-coda 'x=85,y=-52,y-x'\n"
    "quasiattn predict runs/mlu-coda - < questions.txt\n"
    "quasiattn predict runs/mine --data new.csv --columns text=review\n"
    "quasiattn predict runs/mine --data my-test.tsv --errors mistakes.jsonl\n"
    "quasiattn predict runs/multi30k 'Two dogs run.' --weights\n"
    "quasiattn predict runs/snli $'A man plays a guitar.\\tA man makes music.'"
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
    **OUTPUT_FILE,
    help="Write the wrong answers to this file of JSON lines, the most confident first.",
)
@click.option("--weights", is_flag=True, help="Also give the tokens and the attention weights.")
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
    if data is not None and errors is not None and errors.exists() and errors.samefile(data):
        raise UserError(f"--errors {str(errors)!r} would replace the file of --data: name another")
    names = columns_of(columns) if columns else None
    folder, made = finished_run(run)
    if weights and not made.explains:
        raise UserError(
            f"--weights: the answers of {run} have none: for the matrices use quasiattn report "
            f"{run} --to page.html --input TEXT"
        )
    rows: Rows = [(text, None) for text in lines_of(inputs)]
    if data is not None:
        labelled = errors is not None or "label" in (names or ())
        rows = _rows_of(made, data, names, labelled=labelled)
    if errors is not None and not any((label or "").strip() for _, label in rows):
        raise UserError(f"--errors: the labels in {data} are all empty")
    answers = answers_to(folder, made, [text for text, _ in rows], explained=weights)
    if data is not None:
        from keras_quasiattn.lab.data.examples import warn_of_spellings

        classes = dict.fromkeys((str(name) for one in answers[:1] for name in one["classes"]), 0)
        counts = collections.Counter(label.strip() for _, label in rows if label)
        warn_of_spellings(str(data), {**classes, **counts})
    if made.answer_names is not None and not weights:
        answers = [{name: one[name] for name in made.answer_names} for one in answers]
    answers = [_judged(one, label) for one, (_, label) in zip(answers, rows, strict=True)]
    if errors is not None:
        judged = [answer for answer in answers if "right" in answer]
        wrong = [answer for answer in judged if not answer["right"]]
        surest = sorted(wrong, key=lambda one: -max(one["probabilities"]))
        write_json_lines(errors, map(finite, surest))
        click.echo(f"{len(wrong)} of {len(judged)} answers are wrong: see {errors}", err=True)
    for answer in answers:
        click.echo(json.dumps(finite(answer)))


@cli.command(
    epilog="quasiattn show runs/trec 'What is the capital of Yugoslavia ?'\n"
    "quasiattn show runs/trec - < texts.txt"
)
@RUN
@click.argument("inputs", nargs=-1, required=True)
def show(run: Path, inputs: tuple[str, ...]) -> None:
    """Show the gate and weight that the finished run in folder RUN gives every token of a text.

    For a Transformer, the weight is the mean that a token receives in the last layer. '-' reads
    texts from standard input, one per line. `predict --weights` gives the answers as data.
    """
    without = UserError(
        f"the answers of {run} have no tokens to show: use predict, or for the matrices "
        f"quasiattn report {run} --to page.html --input TEXT"
    )
    task = CATALOGUE.get(read_config(run)["task"])
    if task is not None and not task.shows_tokens:
        raise without
    folder, made = finished_run(run)
    answers = answers_to(folder, made, lines_of(inputs))
    from keras_quasiattn.lab.report.write_report import with_received
    from keras_quasiattn.report import token_table

    if any("tokens" not in answer for answer in answers):
        raise without
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


def _rows_of(made: "Task", data: Path, names: dict[str, str] | None, *, labelled: bool) -> Rows:
    from keras_quasiattn.lab.data import read_inputs

    if not made.input_columns:
        raise UserError(
            f"--data {str(data)!r}: task {made.name} answers no tables: "
            "give its inputs as texts, or as lines of standard input"
        )
    known = made.options.data.get("columns") if names is None else names
    rows = read_inputs(data, made.input_columns, known)
    if labelled and all(label is None for _, label in rows):
        name = (known or {}).get("label", "label")
        raise UserError(
            f"{data} has no column {name!r}: name the one of the labels, such as --columns "
            "label=NAME"
        )
    return rows


def _judged(answer: dict[str, Any], label: str | None) -> dict[str, Any]:
    """Return the answer, and whether it is right if the row has a label."""
    from keras_quasiattn.lab.data.examples import NO_LABEL

    expected = (label or "").strip()
    if not expected or (expected == NO_LABEL and NO_LABEL not in answer["classes"]):
        return answer
    return {**answer, "expected": expected, "right": answer["label"] == expected}
