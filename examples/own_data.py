"""Trains the presets for one's own data on small public sets, beside baselines, and prints a table.

    python examples/own_data.py train --vectors glove.6B.100d.txt --data-dir data
    python examples/own_data.py show

`train` writes each set as tables, as one's own data would be, then runs `quasiattn train` and
`quasiattn evaluate --record` on them with three seeds. No option is set but the test file. The sets
are needed as for their own presets.
"""

import argparse
import random
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tables import Record, read_records

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results" / "own_data.jsonl"
COLUMNS = {"classify": ("text", "label"), "pairs": ("first", "second", "label")}


class Own(NamedTuple):
    """A public set, or some of its training rows, as one's own table.

    Args:
        task: the task.
        preset: the preset that has the set.
        rows: training rows to draw; None for all.
        models: the models to train; the first is the task's default.
    """

    task: str
    preset: str
    rows: int | None
    models: tuple[str, ...]

    @property
    def name(self) -> str:
        """Name of its files and runs."""
        return f"{self.preset}_{self.rows or 'all'}"


SETS = (
    Own("classify", "trec", 1000, ("bilstm_gated",)),
    Own("classify", "trec", None, ("bilstm_gated", "words_gated")),
    Own("classify", "sst2", 1000, ("bilstm_gated",)),
    Own("classify", "sst2", None, ("bilstm_gated", "words_gated")),
    Own("pairs", "quora_part", 4000, ("decomposable_coda",)),
    Own("pairs", "snli_part", 4000, ("decomposable_coda",)),
)


def write_tables(own: Own, folder: Path, data_dir: Path) -> Iterator[Path]:
    """Write the training and the test table of a set, unless they are there."""
    from keras_quasiattn.tasks import get
    from keras_quasiattn.tasks.classify_data import load_texts
    from keras_quasiattn.tasks.pair_data import load_pairs

    folder.mkdir(parents=True, exist_ok=True)
    files = {split: folder / f"{own.name}_{split}.tsv" for split in ("train", "test")}
    if not all(file.exists() for file in files.values()):
        options = get(own.task).presets[own.preset].data
        load = load_texts if own.task == "classify" else load_pairs
        data, _ = load(own.preset, options, data_dir)
        for split, file in files.items():
            # What the preset itself holds out of the training split belongs to it here.
            parts = ["train", "validation"] if "validation_share" in options else ["train"]
            rows = [
                row
                for part in (parts if split == "train" else ["test"])
                for row in _rows(own.task, data.splits[part], data.classes)
            ]
            if split == "train" and own.rows:
                rows = random.Random(0).sample(rows, own.rows)
            lines = ["\t".join(row) for row in (COLUMNS[own.task], *rows)]
            file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    yield from files.values()


def _rows(task: str, examples: Any, classes: Sequence[str]) -> list[tuple[str, ...]]:
    columns = [examples.texts] if task == "classify" else [examples.first, examples.second]
    texts = [[_plain(text) for text in column] for column in columns]
    return list(zip(*texts, [classes[label] for label in examples.labels], strict=True))


def _plain(text: bytes) -> str:
    return " ".join(text.decode("utf-8", "replace").split())


def train(arguments: argparse.Namespace) -> None:
    """Train and measure what the results file does not have."""
    done = {(_data(record), record["model"], record["seed"]) for record in read_records(RESULTS)}
    for seed in range(arguments.seeds):
        for own in SETS:
            train_file, test_file = write_tables(own, arguments.tables, arguments.data_dir)
            for model in own.models:
                if (own.name, model, seed) in done:
                    continue
                run = arguments.runs / f"{own.name}-{model}-seed{seed}"
                common = ["--vectors", str(arguments.vectors), "--seed", str(seed)]
                chosen = [] if model == own.models[0] else ["--model", model]
                _run("train", own.task, "--data", str(train_file), *chosen, *common,
                     "--run", str(run), "--set", f"data.test={test_file}", "--quiet")  # fmt: skip
                _run("evaluate", str(run), "--record", str(RESULTS))


def _run(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "quasiattn", *words], check=True)


def _data(record: Record) -> str:
    return Path(record["options"]["data.train"]).stem.removesuffix("_train")


FIGURES: Mapping[str, str] = {
    "accuracy": "accuracy",
    "macro-F1": "macro_f1",
    "calibration error": "expected_calibration_error",
    "bag of words": "bag_of_words_accuracy",
    "majority": "majority_accuracy",
    "drop without open words": "drop_without_open",
    "with these only": "drop_with_open_only",
    "seconds": "seconds",
}


def table(records: Sequence[Record]) -> str:
    """The table in Markdown, a row for each set and model."""
    lines = ["data", "training rows", "model", *FIGURES, "seeds"], ["---"] * (len(FIGURES) + 4)
    rows: list[Sequence[str]] = list(lines)
    for own in SETS:
        for model in own.models:
            found = [
                record
                for record in records
                if _data(record) == own.name and record["model"] == model
            ]
            if found:
                cells = [_spread(found, figure) for figure in FIGURES.values()]
                size = f"{own.rows:,}" if own.rows else "all"
                rows.append([own.preset, size, model, *cells, str(len(found))])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


_SECTION = """
## Your own data

The presets `own` on public sets, written as tables like one's own; no option is set but the test
file. Bag of words: a logistic regression on the same rows. Majority: always answering the most
frequent class. The drops are of the probability of an answer if the open words are deleted, and if
only they are kept. Seconds are medians, on two cores that others used too.

{table}

<details markdown="1">
<summary>Commands</summary>

`python examples/own_data.py train --vectors FILE` writes the tables and runs what is missing.

```bash
{commands}
```

</details>
"""


def section(records: Sequence[Record]) -> str:
    """The table for the results page, with what it says."""
    first = min(record["seed"] for record in records)
    commands = "\n".join(record["command"] for record in records if record["seed"] == first)
    return _SECTION.format(table=table(records), commands=commands)


def _spread(found: Sequence[Mapping[str, Any]], figure: str) -> str:
    values = [record[figure] for record in found if figure in record]
    if not values:
        return ""
    if figure == "seconds":
        return f"{statistics.median(values):.0f}"
    spread = statistics.stdev(values) if len(values) > 1 else 0
    return f"{statistics.mean(values):.3f}" + (f" ± {spread:.3f}" if spread else "")


def main() -> None:
    """Read the arguments and train or show."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("action", choices=("train", "show"))
    parser.add_argument("--vectors", help="GloVe's 100-dimensional vectors")
    parser.add_argument("--data-dir", type=Path, default=Path("data"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--tables", type=Path, default=Path("own"))
    parser.add_argument("--runs", type=Path, default=Path("runs/own"))
    arguments = parser.parse_args()
    if arguments.action == "train":
        if arguments.vectors is None:
            parser.error("train needs --vectors FILE")
        train(arguments)
    print(table(read_records(RESULTS)))


if __name__ == "__main__":
    main()
