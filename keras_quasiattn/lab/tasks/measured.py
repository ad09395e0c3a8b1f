"""Results of a model on some examples (metrics, scores, answers), and warnings about them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np


class Judged(NamedTuple):
    """One example with its right answer and a model's, of probability `confidence`, as texts."""

    input: str
    expected: str
    given: str
    right: bool
    confidence: float


class Measured(NamedTuple):
    """The results of a model on some examples: metrics by name, and single examples.

    A string among the figures describes how a metric was measured, and a dictionary has metrics of
    one kind by name, such as by class; all are JSON-serializable. `items` (examples,) are the
    scores of single examples (in `rank`, of questions) whose mean is the task's main metric; None
    if it is not a mean over examples. `judged`, in their order, is empty for baselines.
    """

    figures: Mapping[str, Any]
    items: np.ndarray | None = None
    judged: Sequence[Judged] = ()

    @property
    def examples(self) -> int:
        """The number of examples that were measured; 0 if unknown."""
        return len(self.judged) if self.items is None else len(self.items)


def flat_figures(baselines: Mapping[str, Measured]) -> dict[str, float]:
    """Return the baselines' metrics in one dictionary, by names like `bag_of_words_accuracy`."""
    return {
        f"{name}_{figure}": value
        for name, measured in baselines.items()
        for figure, value in measured.figures.items()
    }


def judge(*columns: Iterable[Any]) -> list[Judged]:
    """Judge one example per value of the columns, which are the fields of `Judged`."""
    rows = zip(*columns, strict=True)
    return [Judged._make((*texts, bool(right), float(sure))) for *texts, right, sure in rows]


def judge_texts(
    inputs: Iterable[bytes],
    expected: Iterable[bytes],
    answers: Sequence[Mapping[str, Any]],
    right: Iterable[Any],
) -> list[Judged]:
    """Judge decoded texts: `answers` have an `answer` and its `log_probability`."""
    from keras_quasiattn.lab.tasks.batches import as_texts  # needs the extra `tasks`

    given = as_texts(answer["answer"] for answer in answers)
    confidence = (np.exp(answer["log_probability"]) for answer in answers)
    return judge(as_texts(inputs), as_texts(expected), given, right, confidence)


# GA-Net's own densities are at most 0.61 (its Table 3).
_OPEN = 0.75


def behind_simple_methods(
    figures: Mapping[str, Any],
    baselines: Mapping[str, Measured],
    figure: str,
    measured_on: str,
    remedies: str,
) -> list[str]:
    """Return a warning for every baseline that the model does not beat on some examples."""
    lines = []
    for name, measured in baselines.items():
        if figure not in measured.figures or figure not in figures:
            continue
        ours, theirs = figures[figure], measured.figures[figure]
        said = f"warning: the {figure} on {measured_on} is {ours:.3f}, and"
        if name == "majority" and ours <= theirs:
            lines.append(
                f"{said} always answering the most frequent class has {theirs:.3f}: the model has "
                "learned nothing that the texts say"
            )
        elif name != "majority" and ours < theirs:
            lines.append(
                f"{said} a {name.replace('_', ' ')} has {theirs:.3f}: {remedies} may help, or the "
                f"{name.replace('_', ' ')} is the better model"
            )
    return lines


def open_gates(figures: Mapping[str, Any], cost: str) -> list[str]:
    """Return a warning if over three quarters of the gates are open; the option `cost` helps."""
    densities = {name: one for name, one in figures.items() if name.endswith("density")}
    return [
        f"warning: the gates stayed open ({name.replace('_', ' ')} {density:.2f}): this is soft "
        f"attention; a higher {cost} closes them"
        for name, density in densities.items()
        if density > _OPEN
    ]
