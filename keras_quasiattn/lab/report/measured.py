"""Metrics of models next to simple baselines, with intervals, and by class."""

import dataclasses
import itertools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from keras_quasiattn.lab.tasks.measured import Judged, Measured
from keras_quasiattn.lab.tasks.task import Task
from keras_quasiattn.metrics.intervals import bootstrap, wilson
from keras_quasiattn.report.page_writer import Cell, Section

Table = list[list[str]]

_SHOWN = 3  # right answers, and mistakes
_CLASSES = 12  # with more classes, the most frequent mistakes replace the full table


@dataclasses.dataclass(frozen=True)
class Reached:
    """The metrics of one model and of the simple baselines on the same examples."""

    name: str
    task: Task
    split: str
    measured: Measured
    baselines: Mapping[str, Measured]

    def rows(self) -> dict[str, Measured]:
        """Return the model and the baselines, by their names in tables."""
        simple = {spaced(name): one for name, one in self.baselines.items()}
        return {self.name: self.measured, **simple}

    def compared(self) -> list[str]:
        """Return the names of the main metric and of the other metrics that a baseline has."""
        known = {name for one in self.baselines.values() for name in one.figures}
        main = self.task.figure
        return [main, *(name for name in self.measured.figures if name in known - {main})]

    def interval(self, measured: Measured, figure: str) -> tuple[float, float] | None:
        """Return a metric's 95% interval: Wilson's for a share, a bootstrap for a mean of items."""
        if figure in self.task.shares and measured.examples:
            return wilson(measured.figures[figure], measured.examples)
        if figure == self.task.figure and measured.items is not None and len(measured.items):
            return bootstrap(measured.items)
        return None

    def text(self, measured: Measured, figure: str) -> str:
        """Return a metric with its interval, `0.917 (0.819 to 0.964)`; empty if there is none."""
        if figure not in measured.figures:
            return ""
        interval = self.interval(measured, figure)
        text = number_text(measured.figures[figure])
        return f"{text} ({' to '.join(map(number_text, interval))})" if interval else text


def chosen_answers(
    judged: Sequence[Judged], accepts: Callable[[str], bool] = lambda text: True
) -> list[Judged]:
    """Choose three right answers, different ones if possible, and the three surest mistakes.

    Only those whose input passes `accepts` are chosen: a task may measure inputs that it refuses
    to answer in `predict`.
    """
    right = [one for one in judged if one.right]
    first_of_each = list({one.expected: one for one in reversed(right)}.values())[::-1]
    others = [one for one in right if one not in first_of_each]
    wrong = sorted((one for one in judged if not one.right), key=lambda one: -one.confidence)
    accepted = (
        (one for one in some if accepts(one.input)) for some in ([*first_of_each, *others], wrong)
    )
    return [one for some in accepted for one in itertools.islice(some, _SHOWN)]


def beside_baselines(reached: Sequence[Reached]) -> Table:
    """Return a table of the models of one task, then the baselines, each different one once."""
    columns = list(dict.fromkeys(name for one in reached for name in one.compared()))
    models: Table = []
    simple: Table = []
    for one in reached:
        for name, measured in one.rows().items():
            cells = [one.text(measured, column) for column in columns]
            if measured is one.measured:
                models.append([name, *cells])
            elif [name, *cells] not in simple:
                taken = any(row[0] == name for row in simple)
                simple.append([f"{name} ({one.name})" if taken else name, *cells])
    return [["", *map(spaced, columns)], *models, *simple]


def other_figures(reached: Sequence[Reached]) -> Table:
    """Return a table of the metrics that no baseline has: a row per metric, a column per model."""
    names = dict.fromkeys(
        name
        for one in reached
        for name, value in one.measured.figures.items()
        if name not in one.compared() and not isinstance(value, Mapping)
    )
    rows = [[spaced(name), *(one.text(one.measured, name) for one in reached)] for name in names]
    return [["", *(one.name for one in reached)], *rows] if rows else []


def by_name(figures: Mapping[str, Any]) -> dict[str, Table]:
    """Return a table for every metric that has a value per name, such as per class."""
    tables: dict[str, Table] = {}
    for title, values in figures.items():
        if not isinstance(values, Mapping) or not values:
            continue
        rows = {
            name: value if isinstance(value, Mapping) else {"share right": value}
            for name, value in values.items()
        }
        columns = list(dict.fromkeys(column for row in rows.values() for column in row))
        table = [["", *map(spaced, columns)]]
        for name, row in rows.items():
            table.append([name, *(number_text(row.get(column, "")) for column in columns)])
        tables[spaced(title)] = table
    return tables


def figures_section(found: Sequence[Reached]) -> Section:
    """Return a section with a table of models and baselines for each task and split."""
    parts: list[Section] = []
    for key in dict.fromkeys((one.task.name, one.split) for one in found):
        own = [one for one in found if (one.task.name, one.split) == key]
        counts = ", ".join(dict.fromkeys(f"{one.measured.examples:,} examples" for one in own))
        title = f"{', '.join(key)}: {counts}"
        table = [[_with_bar(cell) for cell in row] for row in beside_baselines(own)]
        parts.append(Section(title, table=table, text="In parentheses, the 95% interval."))
        if others := other_figures(own):
            parts.append(Section("Further figures", table=others))
    return Section("What was reached", parts=parts)


def confusion_section(found: Reached) -> Section | None:
    """Return a section with confused classes and metrics per name; None if there are neither."""
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

    def cell(wanted: str, given: str) -> Cell:
        count = pairs[wanted, given]
        shade = count / max(totals[wanted], 1)
        return Cell(number_text(count) if count else "·", shade=shade, right=wanted == given)

    rows: list[list[str | Cell]] = [
        [Cell(wanted, heading=True), *(cell(wanted, given) for given in classes)]
        for wanted in classes
    ]
    text = "A row has the examples of a class, a column those that got this answer."
    return Section("Confusion", table=[["right class ↓  answer →", *classes], *rows], text=text)


def _with_bar(text: str) -> Cell:
    """Return a cell, with a bar if the text is a share, and with its interval if any."""
    value, _, rest = text.partition(" (")
    bounds = rest.rstrip(")").split(" to ") if rest else [value, value]
    try:
        bar = tuple(float(number) for number in (value, *bounds))
    except ValueError:
        return Cell(text)
    return Cell(text, bar=bar if len(bar) == 3 and 0 <= min(bar) <= max(bar) <= 1 else None)


def number_text(value: Any) -> str:
    """Return a number with a readable number of digits.

    >>> number_text(0.91666), number_text(1234567), number_text(23.456), number_text("13a")
    ('0.917', '1,234,567', '23.5', '13a')
    """
    if not isinstance(value, float):
        return f"{value:,}" if isinstance(value, int) else str(value)
    size = abs(value)
    return f"{value:.3f}" if size < 10 else f"{value:.1f}" if size < 1000 else f"{value:,.0f}"


def spaced(name: str) -> str:
    """Return a metric's name as words."""
    return name.replace("_", " ")
