"""The commands that read runs and exported models."""

import json
from pathlib import Path
from typing import Any

import click

from keras_quasiattn.errors import UserError
from keras_quasiattn.files import read_json
from keras_quasiattn.lab.cli.arguments import COUNT, DATA_DIR, FILE, PATH, RUN
from keras_quasiattn.lab.cli.commands import cli
from keras_quasiattn.lab.cli.evaluation import evaluate
from keras_quasiattn.lab.cli.loading import finished_run, load, waiting
from keras_quasiattn.lab.cli.predictions import predict, show
from keras_quasiattn.lab.training.config import read_config

cli.add_command(evaluate)
cli.add_command(predict)
cli.add_command(show)


@cli.command(
    epilog="quasiattn export runs/mlu-coda\n"
    "quasiattn export runs/mlu-coda --to saved_models --name arithmetic --version 2\n"
    "quasiattn export runs/snli --target onnx\n"
    "quasiattn export runs/trec --target openvino --quantize int8\n"
    "quasiattn export runs/snli --compile"
)
@RUN
@click.option(
    "--to", "place", default="saved_models", type=PATH, help="Folder of all exported models."
)
@click.option("--target", default="savedmodel", help="savedmodel, onnx, litert or openvino.")
@click.option("--name", help="Name of the model; default: the run folder's name.")
@click.option("--version", type=int, help="Version number; default: the next one.")
@click.option(
    "--quantize", "mode", help="int8: round weights to 8 bits; report the metrics before and after."
)
@click.option("--limit", type=COUNT, default=1000, help="Validation examples for these metrics.")
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
    limit: int,
    compiled: bool,
    data_dir: Path,
    **options: Any,
) -> None:
    """Export the finished run in folder RUN for TensorFlow Serving or another runtime.

    Prints the path of the new folder. A SavedModel takes strings and returns answers; models.config
    and batching_parameters.txt next to its folder configure a server for all models. The other
    targets take token ids and return logits; their folder is named after the model and the target.
    """
    folder, made = finished_run(run, data_dir)
    from keras_quasiattn import serving
    from keras_quasiattn.serving.server_files import ABOUT

    if target != "savedmodel":
        if compiled:
            raise UserError(f"--compile is for --target savedmodel: got --target {target}")
        serving.need_runtime(target)
    with waiting("exporting"):
        notes: list[str] = []
        quantized = serving.quantize(folder, made, mode, limit=limit) if mode else None
        options["quantized"] = quantized
        if target == "savedmodel":
            version_folder = serving.export(folder, made, place, compiled=compiled, **options)
            lines = [str(version_folder)]
            notes = read_json(version_folder / ABOUT).get("notes", [])
        else:
            conversion = serving.convert(folder, made, place, target, **options)
            lines = [str(conversion.path), conversion.line()]
    for line in lines:
        click.echo(line)
    for line in quantized.lines() if quantized else ():
        click.echo(line)
    for note in notes:
        click.echo(f"note: {note}", err=True)


@cli.command(
    "serve-check",
    epilog="quasiattn serve-check saved_models/trec/1\n"
    "for version in saved_models/*/[0-9]*; do quasiattn serve-check $version; done",
)
@click.argument("path", type=PATH)
@click.option("--repetitions", type=COUNT, default=100, help="How often each batch is timed.")
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
@click.option("--to", "target", required=True, type=FILE, help="The HTML page to write.")
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
@click.option("--limit", type=COUNT, default=1000, help="Examples of it to measure on.")
@click.option("--results", type=FILE, help="Recorded results, for accuracy against density.")
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
