"""Whether the open words of a gated model carry its answer."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

_TEXTS, _BATCH = 1000, 100


def faithfulness(
    answers: Sequence[Mapping[str, Any]], probabilities_of: Callable[[list[list[str]]], np.ndarray]
) -> dict[str, float]:
    """Return how much probability answers lose without their open words, and with only those.

    Each is the mean over the first 1,000 texts of p − p', where p is the probability of the
    predicted label for the whole text and p' its probability for the shortened text. If the open
    words carry the answer, the first, `drop_without_open`, is large and the second,
    `drop_with_open_only`, about 0. The answers have `tokens`, `gates` and `probabilities`;
    `probabilities_of` returns the model's probabilities (texts, classes) of lists of tokens.

    Source: DeYoung et al. 2020, "ERASER", who call them comprehensiveness and sufficiency.
    """
    answers = answers[:_TEXTS]
    whole = np.array([answer["probabilities"] for answer in answers])
    labels = whole.argmax(axis=1)
    figures = {}
    for name, kept in (("drop_without_open", False), ("drop_with_open_only", True)):
        texts = [
            [
                token
                for token, gate in zip(one["tokens"], one["gates"], strict=True)
                if bool(gate) is kept
            ]
            for one in answers
        ]
        order = np.argsort([len(text) for text in texts], kind="stable")
        rest = np.empty_like(whole)
        for start in range(0, len(texts), _BATCH):
            rows = order[start : start + _BATCH]
            rest[rows] = probabilities_of([texts[row] for row in rows])
        of_label = (np.arange(len(texts)), labels)
        figures[name] = float(np.mean(whole[of_label] - rest[of_label]))
    return figures
