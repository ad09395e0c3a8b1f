r"""Writes the page "The papers' pictures" from trained runs, with what the models answer.

for model in gated soft local; do
    quasiattn train classify --preset sst2 --model bilstm_$model --vectors FILE --run runs/$model
done
for model in attention both; do
    quasiattn train pairs --preset quora_part --model siamese_$model --vectors FILE \
        --run runs/$model
done
quasiattn train rank --preset wikiqa --model decomposable_coda --vectors FILE --run runs/coda
python docs/tooling/papers_pictures.py runs data
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_quasiattn.lab.training import RunFolder
from keras_quasiattn.report.attention_figures import shares
from keras_quasiattn.report.figures import histograms

DOCS = Path(__file__).parents[1]
# In the form of the data: words apart from punctuation.
SENTENCES = (
    "This is a film well worth seeing , talking and singing heads and all .",
    "Occasionally melodramatic , it 's also extremely effective .",
)
REVIEW = (
    "I admire Deepa Mehta and this movie is a masterpiece .",
    "The characters - except for the grandmother perhaps - are all very balanced , "
    "no black and white .",
    "I think the IMDB rating for the movie is far too low - "
    "probably due to its politically controversial content .",
)
PAIRS = (
    ("What are the best ways to learn French?", "How do I learn french genders?"),
    ("How do I prevent breast cancer?", "Is breast cancer preventable?"),
)
_HEAD = """# The papers' pictures

What the papers show of single texts, with models trained here. Each model is one run with seed 0,
so the page illustrates and ranks nothing. `docs/tooling/papers_pictures.py` writes it and has the
commands.
"""
_GATED = """## GA-Net, figure 4: which words are open

The paper's two sentences, by the preset `sst2` with gates, with softmax over all tokens and with
local attention. A column has a model's weights, under its answer; · is a closed gate.
"""
_REVIEW = """### Table 4: a review

Sentences of the paper's first review, one at a time, by the gated model; open words are bold. The
paper's model was trained on IMDB and reads whole reviews; this one was trained on single sentences
of SST-2.
"""
_CODA = """## CoDA, figure 2: the matrices at the start and at the end

Histograms on 32 validation pairs of WikiQA while the preset `wikiqa` trains (200 units, E and N as
in the paper), and the shares of the entries within .1 of −1, of 0 and of 1. The gate is
2·sigmoid(N).

![Histograms of tanh(E), the gate and M at six times of training, and the shares of their entries \
near −1, 0 and 1](images/coda_matrices.svg)

As in the paper the gates are near 0 or 1, and M is mostly near 0. Unlike there, tanh(E) is never
negative, because F ends with a ReLU: this model deletes and adds but does not subtract. As many
gates are near 1 before training as after it: those of words at distance 0, such as the same word in
both texts.
"""
_CONFLICT = """## Conflict, section 10.2: two pairs

The paper's two pairs, which are no duplicates in its data, by the preset `quora_part` (a twentieth
of the paper's data). The paper's model with attention takes both for duplicates; its model with
attention and conflict does not.
"""
_COUNTS = """### Section 10.3: which errors are repaired

The test pairs on which only one of the two models is right.
"""
CODA = "network/attend"
MATRICES = {"similarity": "tanh(E)", "gate": "gate", "weights": "M"}


class Run:
    """A finished run and its task."""

    def __init__(self, runs: Path, name: str, data: Path) -> None:
        folder = RunFolder.open(runs / name, finished=True)
        self.task, self.model = folder.task(data), folder.load_model()

    def answers(self, texts: Sequence[str]) -> list[dict[str, Any]]:
        """Return what `quasiattn predict --weights` prints."""
        return self.task.predict(self.model, texts)


def gated_section(runs: Path, data: Path) -> str:
    """GA-Net's figure 4 and the texts of its table 4."""
    models = {name: Run(runs, name, data) for name in ("gated", "soft", "local")}
    parts = [_GATED]
    for sentence in SENTENCES:
        answers = {name: run.answers([sentence])[0] for name, run in models.items()}
        tokens = answers["gated"]["tokens"]
        rows = [["", *tokens]]
        for name, answer in answers.items():
            gates = answer.get("gates", [1.0] * len(tokens))
            weights = zip(answer["weights"], gates, strict=True)
            heading = f"{name}: {_said(answer)}"
            rows.append([heading, *(f"{weight:.2f}" if gate else "·" for weight, gate in weights)])
        parts.append(_table(list(zip(*rows, strict=True))))
    parts.append(_REVIEW)
    for answer in models["gated"].answers(REVIEW):
        words = (
            f"**{token}**" if gate else token
            for token, gate in zip(answer["tokens"], answer["gates"], strict=True)
        )
        parts.append(f"- {' '.join(words)} ({_said(answer)})")
    return "\n".join([*parts, ""])


def coda_section(runs: Path) -> str:
    """CoDA's figure 2: the histograms, and the shares at the start and at the end."""
    lines = (runs / "coda" / "attention.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    drawn = histograms("coda_matrices", CODA, rows, MATRICES)
    (DOCS / "images" / "coda_matrices.svg").write_bytes(drawn.light)
    table = [("matrix", "updates", "near −1", "near 0", "near 1", "below 0")]
    for matrix, title in MATRICES.items():
        for row in (rows[0], rows[1], rows[-1]):
            counts = np.asarray(row["matrices"][f"{CODA}/{matrix}"], float)
            found = shares(row["matrices"][f"{CODA}/{matrix}"])
            numbers = [found[f"near_{where}"] for where in ("minus_one", "zero", "one")]
            numbers.append(counts[: len(counts) // 2].sum() / counts.sum())
            table.append((title, str(row["step"]), *(f"{number:.3f}" for number in numbers)))
    return f"{_CODA}\n{_table(table)}"


def conflict_section(runs: Path, data: Path) -> str:
    """Conflict's two pairs, and which errors the second model repairs."""
    models = {name: Run(runs, name, data) for name in ("attention", "both")}
    table = [("first", "second", "attention", "attention and conflict")]
    for first, second in PAIRS:
        said = [_said(run.answers([f"{first}\t{second}"])[0]) for run in models.values()]
        table.append((first, second, *said))
    task = models["attention"].task
    pairs, _ = task.sources["quora_part"].load(task.options.data, data)
    test = pairs.splits["test"]
    texts = task.texts("test", len(test))
    duplicates = test.labels == pairs.classes.index("duplicate")
    found = {
        name: np.array([answer["label"] == "duplicate" for answer in run.answers(texts)])
        for name, run in models.items()
    }
    right = {name: labels == duplicates for name, labels in found.items()}
    repaired = right["both"] & ~right["attention"]
    broken = right["attention"] & ~right["both"]
    shown = [("test pairs", "all", "not duplicates", "duplicates")]
    for title, which in {
        "all": np.ones_like(duplicates),
        "right with attention": right["attention"],
        "right with attention and conflict": right["both"],
        "repaired: wrong with attention, right with both": repaired,
        "new errors: right with attention, wrong with both": broken,
    }.items():
        parts = (which, which & ~duplicates, which & duplicates)
        shown.append((title, *(f"{part.sum():,}" for part in parts)))
    share = (repaired & ~duplicates).sum() / repaired.sum()
    new = (broken & ~duplicates).sum() / broken.sum()
    summary = (
        f"Of the {repaired.sum():,} repaired errors {share:.0%} had been taken for duplicates (the "
        f"paper: 70%).\nOf the {broken.sum():,} new errors {new:.0%} are taken for duplicates.\n"
    )
    return f"{_CONFLICT}\n{_table(table)}\n{_COUNTS}\n{_table(shown)}\n{summary}"


def _said(answer: dict[str, Any]) -> str:
    return f"{answer['label'].replace('_', ' ')} {max(answer['probabilities']):.2f}"


def _table(rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([lines[0], f"|{'---|' * len(rows[0])}", *lines[1:], ""])


def main() -> None:
    """Run the command line."""
    runs, data = map(Path, sys.argv[1:])
    parts = [_HEAD, gated_section(runs, data), coda_section(runs), conflict_section(runs, data)]
    (DOCS / "papers-pictures.md").write_text("\n".join(parts), encoding="utf-8")


if __name__ == "__main__":
    main()
