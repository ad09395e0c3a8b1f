"""Tasks over two texts that train in seconds: a pair is right if both name the same animal."""

import random
from pathlib import Path
from typing import Any

import tiny

ANIMALS = ["cat", "dog", "cow", "hen", "fox", "owl"]
FILLERS = ["the", "a", "old", "big", "saw", "it", "ran", "was"]
COMMON = {
    "data.max_length": 10,
    "model.embedding_dim": 8,
    "model.units": 16,
    "model.dropout": 0.0,
    "training.batch_size": 16,
    "training.steps": 400,
    "training.checkpoint_every": 100,
    "training.learning_rate": 0.01,
    "training.patience": None,
}


def text(draw: random.Random, animal: str) -> str:
    """Return an animal among other words."""
    words = draw.choices(FILLERS, k=draw.randint(1, 5))
    words.insert(draw.randint(0, len(words)), animal)
    return " ".join(words)


def pairs(count: int, seed: int = 0) -> list[tuple[str, str, str]]:
    """Return rows (first, second, label) with the labels "same" and "other"."""
    draw = random.Random(seed)
    made = []
    for number in range(count):
        first = draw.choice(ANIMALS)
        second = (
            first if number % 2 else draw.choice([animal for animal in ANIMALS if animal != first])
        )
        made.append((text(draw, first), text(draw, second), "same" if number % 2 else "other"))
    return made


def questions(count: int, seed: int = 0) -> list[tuple[str, str, str]]:
    """Return shuffled rows (question, candidate, label): four candidates a question, one right."""
    draw = random.Random(seed)
    made = []
    for number in range(count):
        asked = draw.choice(ANIMALS)
        wrong = draw.sample([animal for animal in ANIMALS if animal != asked], 3)
        question = f"{text(draw, asked)} {number}?"
        made.append((question, text(draw, asked), "1"))
        made += [(question, text(draw, animal), "0") for animal in wrong]
    draw.shuffle(made)
    return made


def write(file: Path, columns: str, made: list[tuple[str, str, str]]) -> Path:
    """Write a TSV of such rows."""
    lines = [columns.replace(" ", "\t"), *("\t".join(row) for row in made)]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


def files(folder: Path, task: str) -> Path:
    """Write the task's training, validation and test files to the folder; return the folder."""
    columns, rows = (
        ("first second label", pairs)
        if task == "pairs"
        else ("question candidate label", questions)
    )
    for seed, (split, count) in enumerate([("train", 400), ("validation", 50), ("test", 50)]):
        write(folder / f"{split}.tsv", columns, rows(count, seed))
    return folder


def overrides(folder: Path, task: str, model: str, **changed: Any) -> dict[str, Any]:
    """Return a small run's settings on these files; `model__units=4` overrides `model.units`."""
    settings = {**COMMON, **tiny.splits(folder)}
    if not model.startswith("siamese"):
        settings.update({"model.projection_dim": 8, "model.num_layers": 1})
    return {**settings, **tiny.dotted(changed)}


def make(folder: Path, task: str, model: str, seed: int = 3, **changed: Any) -> Any:
    """Return the task on the files in the folder."""
    return tiny.make(task, model, folder, overrides(folder, task, model, **changed), seed)
