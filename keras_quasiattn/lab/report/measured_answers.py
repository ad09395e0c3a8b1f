"""What a report says of a run's answers to validation data: figures, confusion, single answers."""

from collections import Counter
from collections.abc import Sequence

import keras

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.report.reached import (
    Reached,
    beside_baselines,
    by_name,
    number_text,
    other_figures,
)
from keras_quasiattn.report.page_writer import Cell, Section
from keras_quasiattn.tasks.measured import Judged
from keras_quasiattn.tasks.task import Task
from keras_quasiattn.training import RunFolder

_SHOWN = 3  # right answers, and mistakes
_CLASSES = 12  # with more classes, the most frequent mistakes stand for the table of all


def reached(
    name: str, folder: RunFolder, task: Task, model: keras.Model, split: str, limit: int
) -> Reached:
    """Measure a run and the baselines on data that are at hand; nothing is downloaded or made.

    Args:
        name: the run's name on the page.
        folder: the run.
        task: its task.
        model: its model.
        split: the part of the data.
        limit: number of examples.

    Raises:
        UserError: the data are missing or are not those of the run, or they lack the split.
    """
    if missing := task.missing_data():
        raise UserError(missing)
    task.prepare()
    trained_on, found = folder.noted.get("data", {}), task.describe_data()
    if trained_on and trained_on.get("version") != found.get("version"):
        raise UserError(
            f"the data are now {found.get('version')} and were {trained_on.get('version')}"
        )
    measured = task.measure(model, split, limit)
    return Reached(name, task, split, measured, task.measure_baselines(split, limit))


def chosen_answers(judged: Sequence[Judged]) -> list[Judged]:
    """Up to three right answers, of different answers if possible, and the surest three mistakes.

    >>> ["right" if one.right else "wrong" for one in chosen_answers(
    ...     [Judged("", "a", "b", False, 0.5), Judged("", "a", "a", True, 0.9)]
    ... )]
    ['right', 'wrong']
    """
    right = [one for one in judged if one.right]
    first_of_each = list({one.expected: one for one in reversed(right)}.values())[::-1]
    others = [one for one in right if one not in first_of_each]
    wrong = sorted((one for one in judged if not one.right), key=lambda one: -one.confidence)
    return [*[*first_of_each, *others][:_SHOWN], *wrong[:_SHOWN]]


def figures_section(found: Sequence[Reached]) -> Section:
    """The figures of models beside the baselines, in a table for each task and split."""
    parts: list[Section] = []
    for key in dict.fromkeys((one.task.name, one.split) for one in found):
        own = [one for one in found if (one.task.name, one.split) == key]
        task, split = key
        counts = ", ".join(dict.fromkeys(f"{one.measured.examples:,} examples" for one in own))
        title = f"{task}, {split}: {counts}"
        table = [[_barred(cell) for cell in row] for row in beside_baselines(own)]
        parts.append(Section(title, table=table, text="In parentheses, the 95% interval."))
        if others := other_figures(own):
            parts.append(Section("Further figures", table=others))
    return Section("What was reached", parts=parts)


def _barred(text: str) -> Cell:
    """A cell with a bar where the text is a share, with the interval where it has one."""
    value, _, rest = text.partition(" (")
    bounds = rest.rstrip(")").split(" to ") if rest else [value, value]
    try:
        bar = tuple(float(number) for number in (value, *bounds))
    except ValueError:
        return Cell(text)
    return Cell(text, bar=bar if len(bar) == 3 and 0 <= min(bar) <= max(bar) <= 1 else None)


def confusion_section(found: Reached) -> Section | None:
    """Which classes the model takes for which, and the figures by name; None without either."""
    parts = []
    classes = list(found.measured.figures.get("per_class", ()))
    if classes and found.measured.judged:
        parts.append(_confusion(classes, found.measured.judged))
    for title, table in by_name(found.measured.figures).items():
        parts.append(Section(title.capitalize(), table=table))
    return Section(f"Where it is right: {found.name}", parts=parts) if parts else None


def _confusion(classes: Sequence[str], judged: Sequence[Judged]) -> Section:
    pairs = Counter((one.expected, one.given) for one in judged)
    if len(classes) > _CLASSES:
        mistakes = [(pair, count) for pair, count in pairs.most_common() if pair[0] != pair[1]]
        most = [[*pair, number_text(count)] for pair, count in mistakes[:_CLASSES]]
        head = ["right class", "taken for", "examples"]
        return Section("The most frequent mistakes", table=[head, *most])
    totals = Counter(one.expected for one in judged)
    rows: list[list[str | Cell]] = [
        [
            Cell(wanted, heading=True),
            *(
                Cell(
                    number_text(pairs[wanted, given]) if pairs[wanted, given] else "·",
                    shade=pairs[wanted, given] / max(totals[wanted], 1),
                    right=wanted == given,
                )
                for given in classes
            ),
        ]
        for wanted in classes
    ]
    text = "A row has the examples of a class, a column those that got this answer."
    return Section("Confusion", table=[["right class ↓  answer →", *classes], *rows], text=text)
