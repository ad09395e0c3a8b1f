"""A public data set, or some of its training rows, as your own table.

    python examples/own_tables.py classify trec own --rows 1000
    quasiattn train classify --data own/trec_1000_train.tsv --test own/trec_1000_test.tsv \
        --run runs/mine

Writes the training rows and the test rows as two files, on which `examples/papers/own_data.toml`
compares models. Reads data from the folder that QUASIATTN_DATA_DIR names (default `data`).
"""

import argparse
import os
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from keras_quasiattn.errors import UserError
from keras_quasiattn.files import atomic_file
from keras_quasiattn.lab.tasks import get

COLUMNS = {"classify": ("text", "label"), "pairs": ("first", "second", "label")}


def rows_of(task: str, examples: Any, classes: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Return the rows of a split: one text or two, and the name of the class."""
    columns = [examples.texts] if task == "classify" else [examples.first, examples.second]
    texts = [[" ".join(text.decode("utf-8", "replace").split()) for text in one] for one in columns]
    yield from zip(*texts, [classes[label] for label in examples.labels], strict=True)


def main() -> None:
    """Read the arguments and write both files."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("task", choices=COLUMNS)
    parser.add_argument("preset", help="of the task, such as trec or quora_part")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, help="training rows to draw; default all")
    arguments = parser.parse_args()
    if arguments.rows is not None and arguments.rows < 1:
        parser.error(f"--rows is {arguments.rows}: it must be at least 1")
    task = get(arguments.task)
    data_dir = Path(os.environ.get("QUASIATTN_DATA_DIR", "data"))
    try:
        if arguments.preset not in task.presets:
            raise UserError.unknown("preset", arguments.preset, task.presets)
        options = task.presets[arguments.preset].data
        data, _ = task.sources[arguments.preset].load(options, data_dir)
    except UserError as error:
        parser.exit(1, f"{parser.prog}: {error}\n")
    arguments.folder.mkdir(parents=True, exist_ok=True)
    # What the preset itself holds out of the training split belongs to it here.
    training = ["train", "validation"] if "validation_share" in options else ["train"]
    for split, parts in (("train", training), ("test", ["test"])):
        rows = [
            row
            for part in parts
            for row in rows_of(arguments.task, data.splits[part], data.classes)
        ]
        if split == "train" and arguments.rows:
            if arguments.rows > len(rows):
                parser.error(f"--rows is {arguments.rows}: there are {len(rows)} training rows")
            rows = random.Random(0).sample(rows, arguments.rows)
        lines = ["\t".join(row) for row in (COLUMNS[arguments.task], *rows)]
        file = arguments.folder / f"{arguments.preset}_{arguments.rows or 'all'}_{split}.tsv"
        with atomic_file(file) as temporary:
            temporary.write_text("\n".join(lines) + "\n", encoding="utf-8")
        print(file)


if __name__ == "__main__":
    main()
