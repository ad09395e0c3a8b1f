"""Tables of what models reached: beside simple methods, with intervals, and by class."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from keras_quasiattn.metrics.intervals import bootstrap, wilson
from keras_quasiattn.tasks.measured import Measured
from keras_quasiattn.tasks.task import Task

Table = list[list[str]]


@dataclasses.dataclass(frozen=True)
class Reached:
    """What one model and the simple methods reached on the same examples.

    Args:
        name: the model's name in tables.
        task: the task.
        split: the part of the data, or the file.
        measured: what the model reached.
        baselines: what simple methods reached, by name.
    """

    name: str
    task: Task
    split: str
    measured: Measured
    baselines: Mapping[str, Measured]

    def rows(self) -> dict[str, Measured]:
        """The model and the baselines, by their names in tables."""
        simple = {spaced(name): one for name, one in self.baselines.items()}
        return {self.name: self.measured, **simple}

    def compared(self) -> list[str]:
        """The main figure, and the others that a baseline has."""
        known = {name for one in self.baselines.values() for name in one.figures}
        main = self.task.figure
        return [main, *(name for name in self.measured.figures if name in known - {main})]

    def interval(self, measured: Measured, figure: str) -> tuple[float, float] | None:
        """The 95% interval of a figure: Wilson's for a share, a bootstrap for a mean of items."""
        if figure in self.task.shares and measured.examples:
            return wilson(measured.figures[figure], measured.examples)
        if figure == self.task.figure and measured.items is not None and len(measured.items):
            return bootstrap(measured.items)
        return None


def beside_baselines(reached: Sequence[Reached]) -> Table:
    """The models of one task beside the baselines: a header, then a row for each.

    A baseline that reached the same for several models, on the same data, has one row.
    """
    columns = list(dict.fromkeys(name for one in reached for name in one.compared()))
    models: Table = []
    simple: Table = []
    for one in reached:
        for name, measured in one.rows().items():
            cells = [figure_text(one, measured, column) for column in columns]
            if measured is one.measured:
                models.append([name, *cells])
            elif [name, *cells] not in simple:
                taken = any(row[0] == name for row in simple)
                simple.append([f"{name} ({one.name})" if taken else name, *cells])
    return [["", *map(spaced, columns)], *models, *simple]


def figure_text(reached: Reached, measured: Measured, figure: str) -> str:
    """A figure with its interval, such as `0.917 (0.819 to 0.964)`; empty if there is none."""
    if figure not in measured.figures:
        return ""
    interval = reached.interval(measured, figure)
    text = number_text(measured.figures[figure])
    return f"{text} ({' to '.join(map(number_text, interval))})" if interval else text


def other_figures(reached: Sequence[Reached]) -> Table:
    """The figures that no baseline has: a row each, a column per model."""
    names = dict.fromkeys(
        name
        for one in reached
        for name, value in one.measured.figures.items()
        if name not in one.compared() and not isinstance(value, Mapping)
    )
    rows = []
    for name in names:
        interval = [figure_text(one, one.measured, name) for one in reached]
        rows.append([spaced(name), *interval])
    return [["", *(one.name for one in reached)], *rows] if rows else []


def by_name(figures: Mapping[str, Any]) -> dict[str, Table]:
    """A table for every figure that has figures by name, such as those of each class."""
    tables: dict[str, Table] = {}
    for title, values in figures.items():
        if not isinstance(values, Mapping) or not values:
            continue
        rows = {
            name: value if isinstance(value, Mapping) else {"share right": value}
            for name, value in values.items()
        }
        columns = list(dict.fromkeys(column for row in rows.values() for column in row))
        tables[spaced(title)] = [
            ["", *map(spaced, columns)],
            *(
                [name, *(number_text(row[column]) if column in row else "" for column in columns)]
                for name, row in rows.items()
            ),
        ]
    return tables


def number_text(value: Any) -> str:
    """A figure in as many digits as one reads.

    >>> number_text(0.91666), number_text(1234567), number_text(23.456), number_text("13a")
    ('0.917', '1,234,567', '23.5', '13a')
    """
    if not isinstance(value, float):
        return f"{value:,}" if isinstance(value, int) else str(value)
    size = abs(value)
    return f"{value:.3f}" if size < 10 else f"{value:.1f}" if size < 1000 else f"{value:,.0f}"


def spaced(name: str) -> str:
    """A figure's name as words.

    >>> spaced("bag_of_words")
    'bag of words'
    """
    return name.replace("_", " ")
