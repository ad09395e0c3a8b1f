"""Recorded results, grouped by the table row of their runs and by seed."""

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_quasiattn.files import read_json_lines
from keras_quasiattn.lab import tasks
from keras_quasiattn.lab.tasks.attention_options import with_todays_names

Record = Mapping[str, Any]
# Task, preset, model, split, and the options that differ from the preset's; equal for a row and its
# runs.
Key = tuple[str, str, str, str, frozenset[str]]
VECTORS = "data.vectors"
WITHOUT_VECTORS = "without word vectors"
# Models whose recorded rows have word vectors; runs without vectors form separate rows.
_READ_WORDS = (
    "attention_flow",
    "bilstm",
    "decaprop",
    "decomposable",
    "mixture",
    "siamese",
    "words",
)


def reads_words(model: str) -> bool:
    """Return whether a model can start with word vectors."""
    return model.startswith(_READ_WORDS)


def key_of_options(
    task: str, preset: str, model: str, split: str, options: Mapping[str, Any]
) -> Key:
    """Return the key of runs with these options, given completely by dotted name.

    The key does not contain the path of the word vectors.
    """
    usual = tasks.describe(task).presets[preset].for_model(model)
    if options.get(VECTORS):  # may change other options of a preset
        usual = usual.with_overrides({VECTORS: options[VECTORS]})
    known = usual.options()
    changed = {
        f"{name}={value if isinstance(value, str) else json.dumps(value, sort_keys=True)}"
        for name, value in options.items()
        if name != VECTORS and (name not in known or known[name] != value)
    }
    return task, preset, model, split, frozenset(changed)


def key_of(record: Record) -> Key:
    """Return the key of the row that a record belongs to.

    Records store all their options, so a run made before a preset changed keeps its row.
    """
    names = ("task", "preset", "model", "split", "options")
    key = key_of_options(*(record[name] for name in names))
    notes = set()
    if shlex.split(record["command"])[1:2] == ["tune"]:
        notes.add("the best of `quasiattn tune`")
    if reads_words(record["model"]) and not record["options"].get(VECTORS):
        notes.add(WITHOUT_VECTORS)
    return (*key[:4], key[4] | notes)


def read_records(file: Path) -> Sequence[Record]:
    """Return the records of a results file; none if the file does not exist."""
    rows = read_json_lines(file)
    for row in rows:
        if isinstance(row.get("options"), dict):
            row["options"] = with_todays_names(row["options"])
    return rows


def by_key(records: Iterable[Record]) -> dict[Key, dict[int, Record]]:
    """Return the runs of every row by seed; for two runs with the same seed, the later one."""
    found: dict[Key, dict[int, Record]] = {}
    for record in records:
        found.setdefault(key_of(record), {})[record["seed"]] = record
    return found
