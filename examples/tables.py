"""Shared by the scripts of the papers' tables: runs what is missing, prints means and spreads."""

import argparse
import itertools
import json
import shlex
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from keras_quasiattn.tasks import get

Record = Mapping[str, Any]
# Task, preset, model, split, and the options that differ from the preset's; the same for a row and
# its runs.
Key = tuple[str, str, str, str, frozenset[str]]
# Prefixes of the names of the models whose rows are with word vectors.
WITH_VECTORS = (
    "attention_flow",
    "bilstm",
    "decaprop",
    "decomposable",
    "mixture",
    "siamese",
    "words",
)


class Row(NamedTuple):
    """One row of a table: a model on a data set; its figures come from the runs of several seeds.

    Args:
        table: the table's name.
        preset: the data set.
        model: the model.
        settings: options that differ from the preset's.
        paper: what the paper prints.
        split: the split that the figures are measured on.
    """

    table: str
    preset: str
    model: str
    settings: Mapping[str, str]
    paper: str
    split: str = "test"

    def run(self, seed: int) -> str:
        """Name of the run folder, the same in every table that has the row."""
        # A setting may be a path.
        words = [self.preset, self.model, *self.settings.values(), f"seed{seed}"]
        return "-".join(words).replace("/", "-")

    def train_command(self, task: str, seed: int, run: Path, vectors: str | None) -> list[str]:
        """The words after `quasiattn` that train one run; `vectors` if its model takes some."""
        words = ["train", task, "--preset", self.preset, "--model", self.model, "--seed", str(seed)]
        if vectors and self.model.startswith(WITH_VECTORS):
            words += ["--vectors", vectors]
        for setting in self.settings.items():
            words += ["--set", "=".join(setting)]
        return [*words, "--run", str(run), "--quiet"]

    def key(self, task: str) -> Key:
        """What the records of the row's runs have in common."""
        options = (
            get(task)
            .presets[self.preset]
            .for_model(self.model)
            .with_overrides(self.settings)
            .options()
        )
        return _key(task, self.preset, self.model, self.split, options)


def grid(
    preset: str,
    models: Iterable[str],
    budget: Mapping[str, str],
    values: Mapping[str, Sequence[str]],
) -> Iterator[Row]:
    """The table `grid`: every model with every combination of the options' values, by validation.

    Args:
        preset: the data set.
        models: the models, which all get the same options.
        budget: options that differ from the preset's in all rows.
        values: the values of each option.
    """
    for chosen, model in itertools.product(itertools.product(*values.values()), models):
        settings = {**budget, **dict(zip(values, chosen, strict=True))}
        yield Row("grid", preset, model, settings, "", "validation")


def key_of(record: Record) -> Key:
    """The key of the row that a record belongs to.

    A record has all its options. So a run from before a preset was changed belongs to the row that
    names the options it had, and is not taken for a run of today's preset.
    """
    key = _key(*(record[name] for name in ("task", "preset", "model", "split", "options")))
    notes = set()
    if shlex.split(record["command"])[1] == "tune":
        notes.add("the best of `quasiattn tune`")
    if record["model"].startswith(WITH_VECTORS) and not record["options"].get("data.vectors"):
        notes.add("without word vectors")
    return (*key[:4], key[4] | notes)


def _key(task: str, preset: str, model: str, split: str, options: Mapping[str, Any]) -> Key:
    usual = get(task).presets[preset].for_model(model)
    if options.get("data.vectors"):  # which may change other options of a preset
        usual = usual.with_overrides({"data.vectors": options["data.vectors"]})
    known = usual.options()
    # The path of the word vectors is not a setting.
    changed = {
        f"{name}={value if isinstance(value, str) else json.dumps(value)}"
        for name, value in options.items()
        if name != "data.vectors" and (name not in known or known[name] != value)
    }
    return task, preset, model, split, frozenset(changed)


def read_records(file: Path) -> list[Record]:
    """The rows of a results file; none if there is no file."""
    if not file.exists():
        return []
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def by_key(records: Iterable[Record]) -> dict[Key, dict[int, Record]]:
    """The runs of every row, by seed; of two runs with the same seed, the later one."""
    found: dict[Key, dict[int, Record]] = {}
    for record in records:
        found.setdefault(key_of(record), {})[record["seed"]] = record
    return found


class Tables(NamedTuple):
    """The tables of a paper.

    Args:
        task: the task's name.
        rows: every row of every table.
        figures: the measured figures to print, by heading: the figure's name and its divisor.
        limit: number of examples to measure on; None for all of them.
        measure: measures a run of a row and appends to a results file; None for
            `quasiattn evaluate`.
        results: the results file, if it is not the task's.
    """

    task: str
    rows: Sequence[Row]
    figures: Mapping[str, tuple[str, float]]
    limit: int | None = None
    measure: Callable[[Path, Row, Path], None] | None = None
    results: str | None = None

    def main(self, description: str) -> None:
        """Parse the arguments and train or show."""
        parser = argparse.ArgumentParser(
            description=description, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        parser.add_argument("action", choices=("train", "show"))
        for name, field in (("tables", "table"), ("datasets", "preset"), ("models", "model")):
            known = sorted({getattr(row, field) for row in self.rows})
            parser.add_argument(
                f"--{name}", dest=field, nargs="+", choices=known, help="default all"
            )
        parser.add_argument(
            "--seeds", type=int, default=5, help="seeds 0 to this, without it (default 5)"
        )
        parser.add_argument("--vectors", help="word vectors, for the models that take some")
        parser.add_argument("--runs", type=Path, default=Path("runs/tables"))
        results = Path("results") / (self.results or f"{self.task}.jsonl")
        parser.add_argument("--results", type=Path, default=results)
        arguments = parser.parse_args()
        chosen = [
            row
            for row in self.rows
            if all(
                getattr(row, field) in (getattr(arguments, field) or [getattr(row, field)])
                for field in ("table", "preset", "model")
            )
        ]
        (self._train if arguments.action == "train" else self._show)(chosen, arguments)

    def _train(self, chosen: Sequence[Row], arguments: argparse.Namespace) -> None:
        """Train and measure what the results file does not have, all rows seed by seed."""
        for seed, row in itertools.product(range(arguments.seeds), chosen):
            if seed in by_key(read_records(arguments.results)).get(row.key(self.task), {}):
                continue
            run = arguments.runs / row.run(seed)
            print(f"== {run.name}", flush=True)
            _quasiattn(row.train_command(self.task, seed, run, arguments.vectors))
            (self.measure or self._evaluate)(run, row, arguments.results)

    def _evaluate(self, run: Path, row: Row, results: Path) -> None:
        limit = [] if self.limit is None else ["--limit", str(self.limit)]
        _quasiattn(["evaluate", str(run), "--split", row.split, "--record", str(results), *limit])

    def _show(self, chosen: Sequence[Row], arguments: argparse.Namespace) -> None:
        """Print the tables: mean and standard deviation over seeds, and the paper's figures."""
        found = by_key(read_records(arguments.results))
        headings = "".join(f"{name:18}" for name in self.figures)
        print(f"{'table':10}{'data':14}{'model':40}{'seeds':>5}  {headings}paper")
        notes = set()
        for row in chosen:
            seeds = found.get(row.key(self.task), {})
            runs = [seeds[seed] for seed in range(arguments.seeds) if seed in seeds]
            if not runs:
                continue
            model = " ".join([row.model, *row.settings.values()])
            figures = "".join(f"{_spread(runs, *figure):18}" for figure in self.figures.values())
            print(f"{row.table:10}{row.preset:14}{model:40}{len(runs):5}  {figures}{row.paper}")
            # Data made by rule have no version.
            note = runs[0].get("data", {}).get("note", "published splits")
            notes.add(f"{row.preset}: {note}")
        print("\n".join(sorted(notes)))


def _quasiattn(words: Sequence[str]) -> None:
    code = subprocess.run([sys.executable, "-m", "quasiattn", *words], check=False).returncode
    if code:
        raise SystemExit(code)  # it has said why


def _spread(runs: Sequence[Mapping[str, Any]], name: str, unit: float) -> str:
    values = [run[name] / unit for run in runs if name in run]
    if not values:
        return ""
    deviation = f" ±{statistics.stdev(values):.4f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.4f}{deviation}"
