"""A table of made-up texts to train on: the question word, in any place, decides the class."""

import random
from pathlib import Path

CLASSES = {"who": "person", "where": "place", "many": "number"}
FILLERS = ["the", "of", "a", "city", "man", "ran", "old", "big", "is", "was", "did", "go", "so"]
# Options for a model that learns these texts in a minute.
SMALL = {
    "data.max_length": "12",
    "model.embedding_dim": "8",
    "model.units": "8",
    "model.gate_units": "8",
    "training.batch_size": "16",
    "training.learning_rate": "0.01",
}


def write_table(file: Path, count: int, seed: int = 0) -> Path:
    """Write a TSV with the columns `text` and `label`."""
    draw = random.Random(seed)
    lines = ["text\tlabel"]
    for number in range(count):
        word, label = list(CLASSES.items())[number % len(CLASSES)]
        words = draw.choices(FILLERS, k=draw.randint(2, 8))
        words.insert(draw.randint(0, len(words)), word)
        lines.append(f"{' '.join(words)} {number} ?\t{label}")
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file
