"""A reading task that trains in seconds: find the name after the given animal, in any script."""

import json
import random
from pathlib import Path
from typing import Any

import tiny

ANIMALS = ["cat", "dog", "cow", "hen", "bête", "猫"]
NAMES = ["Zoë", "Max", "Éva", "Ян", "Ida", "Bo"]
COMMON = {
    "data.train_length": 20,
    "data.max_length": 20,
    "data.stride": 10,
    "data.question_length": 6,
    "data.answer_length": 4,
    "model.embedding_dim": 8,
    "model.units": 8,
    "model.dropout": 0.0,
    "training.batch_size": 16,
    "training.steps": 60,
    "training.checkpoint_every": 30,
    "training.learning_rate": 0.02,
}


def record(draw: random.Random, number: int) -> dict[str, Any]:
    """Return a question, and a passage in which three animals have names."""
    animals, names = draw.sample(ANIMALS, 3), draw.sample(NAMES, 3)
    context = (
        ", ".join(f"the {animal} {name}" for animal, name in zip(animals, names, strict=True)) + "."
    )
    asked = draw.randrange(3)
    start = context.index(f"{animals[asked]} {names[asked]}") + len(animals[asked]) + 1
    return {
        "id": str(number),
        "question": f"Which {animals[asked]}?",
        "context": context,
        "answers": [names[asked]],
        "answer_start": [start],
    }


def records(count: int, seed: int = 0) -> list[dict[str, Any]]:
    """Return several of them."""
    draw = random.Random(seed)
    return [record(draw, number) for number in range(count)]


def files(folder: Path) -> Path:
    """Write training, validation and test files to the folder; return the folder."""
    for seed, (split, count) in enumerate([("train", 200), ("validation", 40), ("test", 40)]):
        lines = "".join(f"{json.dumps(row)}\n" for row in records(count, seed))
        (folder / f"{split}.jsonl").write_text(lines, encoding="utf-8")
    return folder


def make(folder: Path, model: str, seed: int = 3, **changed: Any) -> Any:
    """Return the task on the files in the folder; `model__units=4` overrides `model.units`."""
    settings = {**COMMON, **tiny.splits(folder, "{}.jsonl")}
    if model != "attention_flow":
        settings |= {"model.num_layers": 2, "model.factors": 4}
    return tiny.make("read", model, folder, settings | tiny.dotted(changed), seed)
