"""GA-Net's tables 2, 3 and 5 and figure 5, and CoDA's table 5: runs what is missing and prints them.

    python examples/ganet_tables.py train --tables 2 --datasets trec sst2 --seeds 5 --vectors glove.6B.100d.txt
    python examples/ganet_tables.py show

Every run is a `quasiattn train` and a `quasiattn evaluate --record`, so a row of the results file holds the command
that made it. What the file has already is left out, and an interrupted run goes on where it stopped. The data lie in
the folder that QUASIATTN_DATA_DIR names (default `data`).
"""

import argparse
import itertools
import json
import shlex
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

DATASETS = ("imdb", "ag_news", "ag_news_part", "sst1", "sst2", "trec")
# The papers' figures: accuracy and, for GA-Net, density.
TABLE_2: Mapping[str, Mapping[str, Sequence[float]]] = {
    "bilstm_none": {
        "imdb": [0.8509],
        "ag_news": [0.9139],
        "sst1": [0.4125],
        "sst2": [0.8035],
        "trec": [0.8876],
    },
    "bilstm_local": {
        "imdb": [0.8578],
        "ag_news": [0.9234],
        "sst1": [0.4343],
        "sst2": [0.8154],
        "trec": [0.8944],
    },
    "bilstm_soft": {
        "imdb": [0.8863],
        "ag_news": [0.9264],
        "sst1": [0.4445],
        "sst2": [0.8246],
        "trec": [0.9008],
    },
    "bilstm_gated": {
        "imdb": [0.8941, 0.1999],
        "ag_news": [0.9263, 0.4310],
        "sst1": [0.4464, 0.4722],
        "sst2": [0.8262, 0.6005],
        "trec": [0.9124, 0.4431],
    },
}
TABLE_5: Mapping[str, Sequence[float]] = {
    "feed_forward": [0.8890, 0.2178],
    "self_attention": [0.8892, 0.5326],
    "bilstm": [0.8941, 0.1999],
}
CODA_TABLE_5: Mapping[str, Mapping[str, float]] = {
    "transformer": {"imdb": 0.826, "sst2": 0.789},
    "transformer_coda": {"imdb": 0.833, "sst2": 0.806},
}
SIZES = (20, 40, 60, 80, 100)


class Row(NamedTuple):
    """One row of a table: a model on a data set, several seeds of which make its figures."""

    table: str
    dataset: str
    model: str
    settings: Mapping[str, str]
    paper: Sequence[float]

    def run(self, seed: int) -> str:
        """Name of the run folder, the same in every table that has the row."""
        return "-".join([self.dataset, self.model, *self.settings.values(), f"seed{seed}"])


def rows() -> Iterator[Row]:
    """Every row of every table."""
    for dataset, (model, paper) in itertools.product(DATASETS, TABLE_2.items()):
        yield Row("2", dataset, model, {}, paper.get(dataset, paper["ag_news"]))
    for network, figures in TABLE_5.items():
        settings = {} if network == "bilstm" else {"model.gate_network": network}
        yield Row("5", "imdb", "bilstm_gated", settings, figures)
    for units in SIZES:
        settings = {} if units == 100 else {"model.gate_units": str(units)}
        yield Row("figure5", "trec", "bilstm_gated", settings, [])
    for model, by_dataset in CODA_TABLE_5.items():
        for dataset, accuracy in by_dataset.items():
            yield Row("coda5", dataset, model, {}, [accuracy])


def recorded(results: Path) -> dict[str, dict[str, Any]]:
    """The test rows of the results file, by the name of the run folder."""
    if not results.exists():
        return {}
    found = [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()]
    by_run = {}
    for row in found:
        words = shlex.split(row["command"])
        if row["split"] == "test" and "--run" in words:
            by_run[Path(words[words.index("--run") + 1]).name] = row
    return by_run


def train(chosen: Sequence[Row], arguments: argparse.Namespace) -> None:
    """Train and measure what the results file lacks, one seed of all rows after the other."""
    for seed, row in itertools.product(range(arguments.seeds), chosen):
        name = row.run(seed)
        if name in recorded(arguments.results):
            continue
        run = str(arguments.runs / name)
        command = ["train", "classify", "--preset", row.dataset, "--model", row.model, "--seed", str(seed)]
        if arguments.vectors and row.model.startswith("bilstm"):
            command += ["--vectors", arguments.vectors]
        for setting in row.settings.items():
            command += ["--set", "=".join(setting)]
        print(f"== {name}", flush=True)
        for words in (
            [*command, "--run", run, "--quiet"],
            ["evaluate", run, "--record", str(arguments.results)],
        ):
            subprocess.run([sys.executable, "-m", "quasiattn", *words], check=True)


def show(chosen: Sequence[Row], arguments: argparse.Namespace) -> None:
    """Print the tables: mean and standard deviation over the seeds there are, and the paper's figures."""
    found = recorded(arguments.results)
    print(f"{'table':8}{'data':14}{'model':34}{'seeds':>5}  {'accuracy':15}{'density':9}{'FLOPs':>8}  paper")
    notes = set()
    for row in chosen:
        runs = [found[row.run(seed)] for seed in range(arguments.seeds) if row.run(seed) in found]
        if not runs:
            continue
        model = " ".join([row.model, *row.settings.values()])
        density = f"{statistics.mean(run['density'] for run in runs):.4f}" if "density" in runs[0] else ""
        flops = [run["attention_flops"] for run in runs if "attention_flops" in run]
        cost = f"{statistics.mean(flops) / 1e6:.1f}M" if flops else ""
        paper = " ".join(f"{figure:.4f}" for figure in row.paper)
        accuracy = _spread([run["accuracy"] for run in runs])
        print(
            f"{row.table:8}{row.dataset:14}{model:34}{len(runs):5}  {accuracy:15}{density:9}{cost:>8}  {paper}"
        )
        notes.add(f"{row.dataset}: {runs[0]['data'].get('note', 'published splits')}")
    print("\n".join(sorted(notes)))


def _spread(values: Sequence[float]) -> str:
    deviation = f" ±{statistics.stdev(values):.4f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.4f}{deviation}"


def main() -> None:
    """Read the arguments and do what they say."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("action", choices=("train", "show"))
    parser.add_argument(
        "--tables", nargs="+", choices=sorted({row.table for row in rows()}), help="default all"
    )
    parser.add_argument("--datasets", nargs="+", choices=DATASETS, help="default all")
    parser.add_argument(
        "--models", nargs="+", choices=sorted({row.model for row in rows()}), help="default all"
    )
    parser.add_argument("--seeds", type=int, default=5, help="seeds 0 to this, without it (default 5)")
    parser.add_argument("--vectors", help="word vectors for the BiLSTM models")
    parser.add_argument("--runs", type=Path, default=Path("runs/ganet"))
    parser.add_argument("--results", type=Path, default=Path("results/classify.jsonl"))
    arguments = parser.parse_args()
    chosen = [
        row
        for row in rows()
        if row.table in (arguments.tables or row.table)
        and row.dataset in (arguments.datasets or row.dataset)
        and row.model in (arguments.models or row.model)
    ]
    {"train": train, "show": show}[arguments.action](chosen, arguments)


if __name__ == "__main__":
    main()
