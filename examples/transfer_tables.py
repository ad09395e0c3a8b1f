"""Models trained on SNLI answer SciTail's test pairs: runs what is missing and prints it.

    python examples/transfer_tables.py train --seeds 3 --vectors glove.6B.100d.txt
    python examples/transfer_tables.py show

CoDA's table 3 has models that were trained on SciTail, whose training pairs are not at hand. This
is transfer instead: the models of `pair_tables.py --tables snli`, which have seen no pair of
SciTail. Of their three classes, entailment counts as SciTail's `entails`, the two others as
`neutral`; `majority` is the share of SciTail's most frequent class. Runs that are already in the
results file are skipped, and an interrupted run resumes where it stopped. Data are read from the
folder that QUASIATTN_DATA_DIR names (default `data`).
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from pair_tables import SNLI
from tables import Row, Tables


def rows() -> Iterator[Row]:
    """Every row of the table."""
    for name in ("decomposable", "decomposable dropout", "decomposable_coda"):
        yield Row("transfer", "snli_part", name.split()[0], SNLI[name][0], "", "scitail test")


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


def measure(run: Path, row: Row, results: Path) -> None:
    """Let the model of a finished run answer SciTail's test pairs, and append its row."""
    # Here, so that `show` waits for none of it.
    from keras_quasiattn.data import PairCorpus, pairs_from_tfds, prepare
    from keras_quasiattn.training import RunFolder, append_result, result_row

    data_dir = os.environ.get("QUASIATTN_DATA_DIR", "data")
    builder = prepare(lambda: PairCorpus(config="scitail_part", data_dir=data_dir), data_dir)
    data = pairs_from_tfds(builder, {"test": "test"})
    test = data.splits["test"]
    texts = [b"\t".join(pair).decode() for pair in zip(test.first, test.second, strict=True)]
    folder = RunFolder.open(run, finished=True)
    answers = folder.task(data_dir).predict(folder.load_model(), texts)
    truth = [data.classes[label] for label in test.labels]
    figures = {**scores([answer["label"] for answer in answers], truth), "questions": len(texts)}
    append_result(results, result_row(folder, row.split, figures))


if __name__ == "__main__":
    figures = {"accuracy": ("accuracy", 1.0), "majority": ("majority_accuracy", 1.0)}
    Tables("pairs", list(rows()), figures, measure=measure, results="transfer.jsonl").main(__doc__)
