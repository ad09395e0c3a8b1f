"""A classification task that trains in seconds: the question word decides, wherever it is."""

import random
from pathlib import Path
from typing import Any

import tiny

WORDS = {"HUM": "who", "LOC": "where", "NUM": "many"}
FILLERS = ["the", "of", "a", "city", "man", "ran", "old", "big", "is", "was", "did", "go"]
SETTINGS = {
    "data.max_length": 12,
    "model.embedding_dropout": 0.0,
    "model.dropout": 0.0,
    "model.embedding_dim": 8,
    "model.units": 8,
    "training.batch_size": 8,
    "training.steps": 60,
    "training.checkpoint_every": 20,
    "training.learning_rate": 0.01,
}
TRANSFORMER = {
    "data.vocabulary_size": 60,
    "model.hidden_dim": 16,
    "model.intermediate_dim": 16,
    "model.num_heads": 2,
    "training.warmup_steps": 10,
}


def rows(count: int, seed: int = 0) -> list[tuple[str, str]]:
    """Return (text, label) pairs."""
    draw = random.Random(seed)
    made = []
    for number in range(count):
        label, word = list(WORDS.items())[number % len(WORDS)]
        words = draw.choices(FILLERS, k=draw.randint(1, 9))
        words.insert(draw.randint(0, len(words)), word)
        made.append((f"{' '.join(words)} {number}?", label))
    return made


def write(file: Path, made: list[tuple[str, str]]) -> Path:
    """Write a TSV of such pairs."""
    lines = ["text\tlabel", *("\t".join(row) for row in made)]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


def overrides(folder: Path, model: str, **changed: Any) -> dict[str, Any]:
    """Return a small run's settings on these files; `model__units=4` overrides `model.units`."""
    names = (
        ("embedding_dim", "units", "embedding_dropout") if model.startswith("transformer") else ()
    )
    settings = {
        name: value for name, value in SETTINGS.items() if name.removeprefix("model.") not in names
    }
    if model.startswith("transformer"):
        settings.update(TRANSFORMER)
    elif model == "bilstm_gated":
        settings["model.gate_units"] = 8
    return {
        **settings,
        "data.train": str(folder / "train.tsv"),
        "data.test": str(folder / "test.tsv"),
        **tiny.dotted(changed),
    }


def make(folder: Path, model: str = "bilstm_gated", seed: int = 3, **changed: Any) -> Any:
    """Return the task on the files in the folder."""
    return tiny.make("classify", model, folder, overrides(folder, model, **changed), seed)


def files(folder: Path, train: int = 240, test: int = 60) -> Path:
    """Write so many training and test texts to the folder; return the folder."""
    write(folder / "train.tsv", rows(train))
    write(folder / "test.tsv", rows(test, seed=1))
    return folder
