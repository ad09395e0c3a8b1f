"""Text-to-text tasks that train in seconds: every word has one translation, in its place."""

import json
import random
from pathlib import Path
from typing import Any

import tiny

WORDS = {"a": "ein", "dog": "Hund", "cat": "Tier", "sees": "sieht", "runs": "rennt", "man": "Mann"}
COMMON = {
    "data.vocabulary_size": 320,
    "data.max_length": 12,
    "data.length_multiple": 4,
    "data.row_multiple": 2,
    "model.beam_width": 2,
    "model.extra_tokens": 4,
    "training.batch_size": 128,
    "training.steps": 150,
    "training.checkpoint_every": 75,
    "training.learning_rate": 0.02,
    "training.warmup_steps": 20,
    "training.patience": None,
}
TRANSFORMER = {
    "num_layers": 1,
    "hidden_dim": 16,
    "intermediate_dim": 16,
    "num_heads": 2,
    "dropout": 0.0,
}
RECURRENT = {"embedding_dim": 8, "units": 8, "dropout": 0.0}
PROBLEMS = [
    ("given a number a , add {} to a", "[ + a {} ]", {"a": "int"}, "int", lambda a, n: a + n),
    ("given a number a , take {} from a", "[ - a {} ]", {"a": "int"}, "int", lambda a, n: a - n),
]


def sentences(count: int, seed: int = 0) -> list[tuple[str, str]]:
    """Return sources and targets of one to four words."""
    draw = random.Random(seed)
    made = [draw.choices(list(WORDS), k=draw.randint(1, 4)) for _ in range(count)]
    return [(" ".join(words), " ".join(WORDS[word] for word in words)) for words in made]


def problems(count: int) -> list[dict[str, Any]]:
    """Return records in AlgoLisp's published form."""
    made = []
    for number in range(count):
        text, program, arguments, kind, answer = PROBLEMS[number % 2]
        n = [0, 1, 2, 10][number // 2 % 4]
        tests = [{"input": {"a": a}, "output": answer(a, n)} for a in (3, -4)]
        tree = program.format(n).strip("[] ").split()
        record = {"text": text.format(n).split(), "short_tree": tree, "args": arguments}
        made.append({**record, "return_type": kind, "tests": tests})
    return made


def files(folder: Path) -> Path:
    """Write sentences of three splits, one file per side, and problems; return the folder."""
    for seed, (split, count) in enumerate([("train", 300), ("validation", 20), ("test", 20)]):
        for side, lines in zip(
            ("en", "de"), zip(*sentences(count, seed), strict=True), strict=True
        ):
            (folder / f"{split}.{side}").write_text("\n".join(lines) + "\n", encoding="utf-8")
        lines = [json.dumps(record) for record in problems(count // 10)]
        (folder / f"{split}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def overrides(folder: Path, task: str, model: str, **changed: Any) -> dict[str, Any]:
    """Return a small run's settings on these files; `model__units=4` overrides `model.units`."""
    sizes = RECURRENT if model.startswith("seq2seq") else TRANSFORMER
    return {
        **COMMON,
        **({} if task == "translate" else {"data.max_length": 60}),
        **tiny.splits(folder, "{0}.en,{0}.de" if task == "translate" else "{0}.jsonl"),
        **{f"model.{name}": value for name, value in sizes.items()},
        **tiny.dotted(changed),
    }


def make(folder: Path, task: str = "translate", model: str = "transformer", **changed: Any) -> Any:
    """Return the task on the files in the folder."""
    return tiny.make(task, model, folder, overrides(folder, task, model, **changed))
