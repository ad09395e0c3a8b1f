r"""Every attention on the same tasks, each at its own best rate: runs what is missing, prints it.

    python examples/mechanism_tables.py train --tasks trec --seeds 3
    python examples/mechanism_tables.py show
    python examples/mechanism_tables.py chart

For each attention, seed 0 is trained at every rate; the rate that is best on validation data is
then trained with all seeds and measured on test data. All else is the same for all of them. A row
of the results file holds the command that made it; rows that are already there are not made again,
and an interrupted run resumes where it stopped. Runs are one after the other in this process. Data
are read from the folder that QUASIATTN_DATA_DIR names (default `data`).

`show` prints a table in Markdown: mean and standard deviation over seeds for every task, and what a
layer costs in training beside Keras' own, from `python -m benchmarks.layers`. `chart` draws it.
"""

import argparse
import itertools
import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import keras
from mlu_tables import SMALL
from tables import Key, Record, Row, by_key, read_records

from keras_quasiattn.cli import main as quasiattn
from keras_quasiattn.layers.shared.mechanisms import MULTI_HEAD_LAYERS

ROOT = Path(__file__).resolve().parents[1]
COSTS = ROOT / "benchmarks" / "results" / "layers.json"
# Batch, length, width and heads of the benchmark that `show` and `chart` take the cost from.
SIZE = {"batch": 16, "length": 128, "width": 256, "heads": 4}


class Experiment(NamedTuple):
    """One task, with the same budget for every attention.

    Args:
        task: the name of a task of `quasiattn`.
        preset: its preset.
        model: its model, which takes `model.attention`.
        settings: options that differ from the preset's.
        rates: learning rates to choose from.
        figure: what is measured.
        sign: 1 if high figures are good, −1 if low ones are.
        options: options of single attentions, where the defaults are known not to fit.
    """

    task: str
    preset: str
    model: str
    settings: Mapping[str, str]
    rates: Sequence[str]
    figure: str = "accuracy"
    sign: int = 1
    options: Mapping[str, str] = {}

    def row(self, attention: str, rate: str, split: str) -> Row:
        """The row of one attention at one rate."""
        settings = {
            **self.settings,
            "model.attention": attention,
            "training.learning_rate": rate,
        }
        if attention in self.options:
            settings["model.attention_options"] = self.options[attention]
        return Row(self.task, self.preset, self.model, settings, "", split)


# The same schedule everywhere: constant after a short warm-up.
_TRAINING = {"training.schedule": "constant", "training.warmup_steps": "50"}
# The scale at which CoDA's gates are open for vectors of length 1, as in `decomposable_coda`.
_PAIR_OPTIONS = {"coda": json.dumps({"scaling": "none"})}
EXPERIMENTS: Mapping[str, Experiment] = {
    "trec": Experiment(
        "classify",
        "trec",
        "transformer",
        {
            **_TRAINING,
            "data.tokenizer": "questions",
            "model.hidden_dim": "64",
            "model.intermediate_dim": "128",
            "training.steps": "300",
            "training.batch_size": "64",
            "training.checkpoint_every": "75",
        },
        ("0.002", "0.006", "0.018"),
    ),
    "snli": Experiment(
        "pairs",
        "snli_part",
        "decomposable",
        {**_TRAINING, "training.steps": "1680", "training.checkpoint_every": "560"},
        ("0.0003", "0.001", "0.003"),
        options=_PAIR_OPTIONS,
    ),
    "sst2": Experiment(
        "classify",
        "sst2",
        "transformer",
        {
            **_TRAINING,
            "data.tokenizer": "treebank",
            "model.hidden_dim": "64",
            "model.intermediate_dim": "128",
            "training.steps": "600",
            "training.batch_size": "64",
            "training.checkpoint_every": "60",
        },
        ("0.002", "0.006", "0.018"),
    ),
    "arithmetic": Experiment(
        "mlu",
        "demo",
        "softmax",
        SMALL,
        ("0.002", "0.005"),
        "sequence_accuracy",
    ),
    "multi30k": Experiment(
        "translate",
        "multi30k",
        "transformer",
        {
            "data.vocabulary_size": "4000",
            "model.num_layers": "2",
            "model.dropout": "0.1",
            "model.beam_width": "1",
            "training.steps": "600",
            "training.batch_size": "1024",
            "training.warmup_steps": "250",
            "training.checkpoint_every": "300",
            "training.average_checkpoints": "1",
        },
        ("0.002", "0.004", "0.008"),
        "perplexity",
        -1,
    ),
}


def best_rate(
    experiment: Experiment, attention: str, found: Mapping[Key, Mapping[int, Record]]
) -> str | None:
    """The rate that is best on validation data; None while one of them is missing."""
    figures = {}
    for rate in experiment.rates:
        row = experiment.row(attention, rate, "validation")
        seeds = found.get(row.key(experiment.task), {})
        if 0 not in seeds:
            return None
        figures[rate] = experiment.sign * seeds[0][experiment.figure]
    return max(figures, key=lambda rate: figures[rate])


def train(chosen: Sequence[str], arguments: argparse.Namespace) -> None:
    """Train and measure what the results file does not have: all rates first, then the seeds."""
    for name in chosen:
        experiment = EXPERIMENTS[name]
        for rate, attention in itertools.product(experiment.rates, arguments.attention):
            _run(experiment.row(attention, rate, "validation"), 0, arguments)
        for seed, attention in itertools.product(range(arguments.seeds), arguments.attention):
            found = by_key(read_records(arguments.results))
            rate = best_rate(experiment, attention, found)
            assert rate is not None  # all rates are above
            _run(experiment.row(attention, rate, "test"), seed, arguments)


def _run(row: Row, seed: int, arguments: argparse.Namespace) -> None:
    if seed in by_key(read_records(arguments.results)).get(row.key(row.table), {}):
        return
    run = arguments.runs / row.run(seed)
    print(f"== {run.name} on {row.split} data", flush=True)
    _call(row.train_command(row.table, seed, run, arguments.vectors))
    _call(["evaluate", str(run), "--split", row.split, "--record", str(arguments.results)])
    keras.backend.clear_session()


def _call(words: list[str]) -> None:
    try:
        quasiattn(words)
    except SystemExit as end:
        if end.code:
            raise


def costs() -> dict[str, float]:
    """How long a training step of a layer takes, over that of Keras' own."""
    rows = json.loads(COSTS.read_text(encoding="utf-8"))["rows"]
    wanted = {**SIZE, "way": "train_on_batch"}
    return {row["layer"]: row["ratio"] for row in rows if wanted.items() <= row.items()}


def measured(name: str, found: Mapping[Key, Mapping[int, Record]]) -> dict[str, list[float]]:
    """The figures on test data of each attention's seeds, for all attentions that were run."""
    experiment, figures = EXPERIMENTS[name], {}
    for attention in sorted(MULTI_HEAD_LAYERS):
        rate = best_rate(experiment, attention, found)
        if rate is not None:
            runs = found.get(experiment.row(attention, rate, "test").key(experiment.task), {})
            if runs:
                figures[attention] = [runs[seed][experiment.figure] for seed in sorted(runs)]
    return figures


def by_mean_rank(tasks: Mapping[str, Mapping[str, Sequence[float]]]) -> dict[str, float]:
    """The mean over the tasks of each attention's rank, the best first."""
    ranks: dict[str, list[int]] = {}
    for name, figures in tasks.items():
        sign = EXPERIMENTS[name].sign
        order = sorted(figures, key=lambda x: -sign * statistics.mean(figures[x]))
        for rank, attention in enumerate(order, 1):
            ranks.setdefault(attention, []).append(rank)
    means = {attention: statistics.mean(found) for attention, found in ranks.items()}
    return dict(sorted(means.items(), key=lambda item: item[1]))


def show(tasks: Mapping[str, Mapping[str, Sequence[float]]]) -> None:
    """Print one table, with the best mean rank on top."""
    cost = costs()
    headings = [f"{name}, {EXPERIMENTS[name].figure.replace('_', ' ')}" for name in tasks]
    print("| attention |", " | ".join([*headings, "mean rank", "cost"]), "|")
    print("|---" * (len(tasks) + 3) + "|")
    for attention, rank in by_mean_rank(tasks).items():
        cells = [_cell(figures, attention, EXPERIMENTS[name]) for name, figures in tasks.items()]
        price = f"{cost[attention]:.2f}" if attention in cost else ""
        print(f"| `{attention}` |", " | ".join([*cells, f"{rank:.1f}", price]), "|")
    for name, figures in tasks.items():
        counts = sorted({len(seeds) for seeds in figures.values()})
        print(f"{name}: {' or '.join(map(str, counts))} seeds")


def _cell(figures: Mapping[str, Sequence[float]], attention: str, experiment: Experiment) -> str:
    """Mean ± deviation; bold where it beats softmax by more than both deviations, italic below."""
    if attention not in figures:
        return ""
    mean, deviation = _spread(figures[attention])
    other, beside = _spread(figures["softmax"])
    decimals = 2 if experiment.sign < 0 else 3
    if min(len(figures[attention]), len(figures["softmax"])) == 1:
        return f"{mean:.{decimals}f}"  # one seed ranks nothing
    lead = experiment.sign * (mean - other)
    mark = "" if abs(lead) <= deviation + beside else "**" if lead > 0 else "*"
    return f"{mark}{mean:.{decimals}f} ± {deviation:.{decimals}f}{mark}"


def _spread(figures: Sequence[float]) -> tuple[float, float]:
    return statistics.mean(figures), statistics.stdev(figures) if len(figures) > 1 else 0.0


def chart(tasks: Mapping[str, Mapping[str, Sequence[float]]], output: Path) -> None:
    """Draw a panel a task and one of the costs, a line an attention, as `show` orders them."""
    import matplotlib.pyplot as plt

    cost = costs()
    lines = {attention: place for place, attention in enumerate(by_mean_rank(tasks))}
    size = (2.2 * len(tasks) + 3.5, 0.3 * len(lines) + 1)
    figure, (*panels, last) = plt.subplots(
        1, len(tasks) + 1, sharey=True, figsize=size, layout="constrained"
    )
    for axes, (name, figures) in zip(panels, tasks.items(), strict=True):
        for attention, seeds in figures.items():
            mean, deviation = _spread(seeds)
            line = lines[attention]
            axes.errorbar(mean, line, xerr=deviation, fmt="o", color="C0", markersize=4, capsize=2)
        mean, deviation = _spread(figures["softmax"])
        axes.axvspan(mean - deviation, mean + deviation, color="C1", alpha=0.2, linewidth=0)
        axes.set_title(f"{name},\n{EXPERIMENTS[name].figure.replace('_', ' ')}", fontsize="medium")
        if EXPERIMENTS[name].sign < 0:
            axes.invert_xaxis()  # the best at the right
        axes.grid(alpha=0.3)
    priced = {line: cost[attention] for attention, line in lines.items() if attention in cost}
    last.barh(list(priced), list(priced.values()), height=0.5, color="0.6")
    last.axvline(1, color="0.3", linewidth=0.8)
    last.set_title("cost of\na training step", fontsize="medium")
    last.set_yticks(list(lines.values()), list(lines))
    last.invert_yaxis()
    figure.savefig(output)


def main() -> None:
    """Parse the arguments and train, show or draw."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("action", choices=("train", "show", "chart"))
    parser.add_argument("--tasks", nargs="+", choices=EXPERIMENTS, default=list(EXPERIMENTS))
    parser.add_argument("--attention", nargs="+", default=sorted(MULTI_HEAD_LAYERS))
    parser.add_argument("--seeds", type=int, default=3, help="seeds 0 to this, without it")
    parser.add_argument("--vectors", help="word vectors, for the pairs")
    parser.add_argument("--runs", type=Path, default=Path("runs/mechanisms"))
    parser.add_argument("--results", type=Path, default=ROOT / "results" / "mechanisms.jsonl")
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "images" / "mechanisms.png")
    arguments = parser.parse_args()
    if arguments.action == "train":
        train(arguments.tasks, arguments)
        return
    found = by_key(read_records(arguments.results))
    tasks = {name: figures for name in arguments.tasks if (figures := measured(name, found))}
    if arguments.action == "show":
        show(tasks)
    else:
        chart(tasks, arguments.output)


if __name__ == "__main__":
    main()
