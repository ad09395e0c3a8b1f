r"""Models trained on SNLI answer SciTail's test pairs: runs what is missing and prints the table.

    python examples/transfer_tables.py train --seeds 3 --vectors glove.6B.100d.txt
    python examples/transfer_tables.py show

CoDA's table 3 has models that were trained on SciTail, whose training pairs are not at hand. This
is transfer instead: the models of `pair_tables.py --tables snli`, which have seen no pair of
SciTail. Of their three classes, entailment counts as SciTail's `entails`, the two others as
`neutral`. Runs that are already in the results file are skipped, and an interrupted run resumes
where it stopped. Data are read from the folder that QUASIATTN_DATA_DIR names (default `data`).
"""

import argparse
import itertools
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from pair_tables import SNLI
from tables import Record, Row, by_key, read_records

MODELS = ("decomposable", "decomposable dropout", "decomposable_coda")


def row_of(name: str) -> Row:
    """The row of one of SNLI's models."""
    return Row("transfer", "snli_part", name.split()[0], SNLI[name][0], "", "scitail test")


def scores(answers: Sequence[str], truth: Sequence[str]) -> Mapping[str, float]:
    """The share of right answers, and of the most frequent class.

    Args:
        answers: SNLI's classes, as a model answered.
        truth: SciTail's classes, `entails` and `neutral`.
    """
    entails = np.array(truth) == "entails"
    right = (np.array(answers) == "entailment") == entails
    share = float(entails.mean())
    return {"accuracy": float(right.mean()), "majority_accuracy": max(share, 1 - share)}


def train(arguments: argparse.Namespace) -> None:
    """Train and measure what the results file does not have."""
    # Here, so that `show` waits for none of it.
    from keras_quasiattn.data import PairCorpus, pairs_from_tfds, prepare
    from keras_quasiattn.training import RunFolder, append_result, result_row

    data_dir = os.environ.get("QUASIATTN_DATA_DIR", "data")
    builder = prepare(lambda: PairCorpus(config="scitail_part", data_dir=data_dir), data_dir)
    data = pairs_from_tfds(builder, {"test": "test"})
    test = data.splits["test"]
    texts = [b"\t".join(pair).decode() for pair in zip(test.first, test.second, strict=True)]
    truth = [data.classes[label] for label in test.labels]
    for seed, name in itertools.product(range(arguments.seeds), MODELS):
        row = row_of(name)
        if seed in by_key(read_records(arguments.results)).get(row.key("pairs"), {}):
            continue
        run = arguments.runs / row.run(seed)
        print(f"== {run.name}", flush=True)
        words = row.train_command("pairs", seed, run, arguments.vectors)
        subprocess.run([sys.executable, "-m", "quasiattn", *words], check=True)
        folder = RunFolder.open(run, finished=True)
        task = folder.task(data_dir)
        answers = [answer["label"] for answer in task.predict(folder.load_model(), texts)]
        figures = {**scores(answers, truth), "questions": len(texts)}
        append_result(arguments.results, result_row(folder, row.split, figures))


def show(records: Sequence[Record]) -> None:
    """Print a line a model: mean and standard deviation over seeds."""
    found = by_key(records)
    print("| trained on SNLI's part | seeds | accuracy on SciTail's test pairs |")
    print("|---|---|---|")
    for name in MODELS:
        runs = list(found.get(row_of(name).key("pairs"), {}).values())
        if runs:
            figures = [run["accuracy"] for run in runs]
            spread = f" ± {statistics.stdev(figures):.4f}" if len(figures) > 1 else ""
            print(f"| {name} | {len(runs)} | {statistics.mean(figures):.4f}{spread} |")
    if records:
        print(f"| the most frequent class | | {records[0]['majority_accuracy']:.4f} |")


def main() -> None:
    """Parse the arguments and train or show."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("action", choices=("train", "show"))
    parser.add_argument("--seeds", type=int, default=3, help="seeds 0 to this, without it")
    parser.add_argument("--vectors", help="word vectors; `train` needs them")
    parser.add_argument("--runs", type=Path, default=Path("runs/tables"))
    parser.add_argument("--results", type=Path, default=Path("results/transfer.jsonl"))
    arguments = parser.parse_args()
    if arguments.action == "train":
        if not arguments.vectors:
            parser.error("train needs --vectors FILE, GloVe's 100-dimensional vectors")
        train(arguments)
    show(read_records(arguments.results))


if __name__ == "__main__":
    main()
