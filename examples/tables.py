"""What the scripts of the papers' tables share: runs what is missing, and prints means and spreads."""

import argparse
import itertools
import json
import shlex
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple


class Row(NamedTuple):
    """One row of a table: a model on a data set, several seeds of which make its figures.

    Args:
        table: the table's name.
        preset: the data set.
        model: the model.
        settings: options that differ from the preset's.
        paper: what the paper prints.
        split: part of the data that the figures are of.
    """

    table: str
    preset: str
    model: str
    settings: Mapping[str, str]
    paper: str
    split: str = "test"

    def run(self, seed: int) -> str:
        """Name of the run folder, the same in every table that has the row."""
        return "-".join([self.preset, self.model, *self.settings.values(), f"seed{seed}"])


class Tables(NamedTuple):
    """The tables of a paper.

    Args:
        task: the task's name.
        rows: every row of every table.
        figures: the measured figures to print, by heading: a name and what divides it.
        vectors_for: beginnings of the names of the models that take word vectors.
    """

    task: str
    rows: Sequence[Row]
    figures: Mapping[str, tuple[str, float]]
    vectors_for: tuple[str, ...]

    def main(self, description: str) -> None:
        """Read the arguments and do what they say."""
        parser = argparse.ArgumentParser(
            description=description, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        parser.add_argument("action", choices=("train", "show"))
        for name, field in (("tables", "table"), ("datasets", "preset"), ("models", "model")):
            known = sorted({getattr(row, field) for row in self.rows})
            parser.add_argument(f"--{name}", dest=field, nargs="+", choices=known, help="default all")
        parser.add_argument("--seeds", type=int, default=5, help="seeds 0 to this, without it (default 5)")
        parser.add_argument("--vectors", help="word vectors, for the models that take some")
        parser.add_argument("--runs", type=Path, default=Path("runs/tables"))
        parser.add_argument("--results", type=Path, default=Path(f"results/{self.task}.jsonl"))
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
        """Train and measure what the results file lacks, one seed of all rows after the other."""
        for seed, row in itertools.product(range(arguments.seeds), chosen):
            name = row.run(seed)
            if (name, row.split) in _recorded(arguments.results):
                continue
            run = str(arguments.runs / name)
            command = ["train", self.task, "--preset", row.preset, "--model", row.model, "--seed", str(seed)]
            if arguments.vectors and row.model.startswith(self.vectors_for):
                command += ["--vectors", arguments.vectors]
            for setting in row.settings.items():
                command += ["--set", "=".join(setting)]
            print(f"== {name}", flush=True)
            for words in (
                [*command, "--run", run, "--quiet"],
                ["evaluate", run, "--split", row.split, "--record", str(arguments.results)],
            ):
                subprocess.run([sys.executable, "-m", "quasiattn", *words], check=True)

    def _show(self, chosen: Sequence[Row], arguments: argparse.Namespace) -> None:
        """Print the tables: mean and standard deviation over the seeds there are, and the paper's figures."""
        found = _recorded(arguments.results)
        headings = "".join(f"{name:18}" for name in self.figures)
        print(f"{'table':10}{'data':14}{'model':40}{'seeds':>5}  {headings}paper")
        notes = set()
        for row in chosen:
            wanted = [(row.run(seed), row.split) for seed in range(arguments.seeds)]
            runs = [found[key] for key in wanted if key in found]
            if not runs:
                continue
            model = " ".join([row.model, *row.settings.values()])
            figures = "".join(f"{_spread(runs, *figure):18}" for figure in self.figures.values())
            print(f"{row.table:10}{row.preset:14}{model:40}{len(runs):5}  {figures}{row.paper}")
            notes.add(f"{row.preset}: {runs[0]['data'].get('note', 'published splits')}")
        print("\n".join(sorted(notes)))


def _recorded(results: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """The rows of the results file, by the name of the run folder and the split."""
    if not results.exists():
        return {}
    found = [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()]
    by_run = {}
    for row in found:
        words = shlex.split(row["command"])
        if "--run" in words:
            by_run[Path(words[words.index("--run") + 1]).name, row["split"]] = row
    return by_run


def _spread(runs: Sequence[Mapping[str, Any]], name: str, unit: float) -> str:
    values = [run[name] / unit for run in runs if name in run]
    if not values:
        return ""
    deviation = f" ±{statistics.stdev(values):.4f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.4f}{deviation}"
