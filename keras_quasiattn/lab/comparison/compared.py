"""The result of a comparison: metrics with their spread, differences, verdicts and costs."""

import dataclasses
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from keras_quasiattn.lab.comparison import differences
from keras_quasiattn.lab.comparison.differences import Difference
from keras_quasiattn.lab.comparison.tables import aligned

# Heading and format of each cost.
COSTS: Mapping[str, tuple[str, str]] = {
    "step": ("update, ms", "{:.1f}"),
    "answer": ("answer, ms", "{:.2f}"),
    "memory": ("memory, MiB", "{:,.0f}"),
    "weights": ("weights", "{:,.0f}"),
}


@dataclasses.dataclass
class Entry:
    """An attention, or a simple baseline.

    Args:
        name: its name.
        figures: its metric by seed; a baseline has one value, for seed 0.
        items: the scores of single test items by seed, whose mean is the metric; empty if the
            metric is not a mean over items.
        rate: the learning rate that was chosen on validation data.
        costs: those of `step`, `answer`, `memory` and `weights` that were measured.
        errors: the errors of failed runs, by seed.
        simple: whether it is a baseline without attention, which has no seeds.
    """

    name: str
    figures: dict[int, float] = dataclasses.field(default_factory=dict)
    items: dict[int, np.ndarray] = dataclasses.field(default_factory=dict)
    rate: str = ""
    costs: Mapping[str, float] = dataclasses.field(default_factory=dict)
    errors: dict[int, str] = dataclasses.field(default_factory=dict)
    simple: bool = False

    @property
    def mean(self) -> float:
        """The mean over the seeds; NaN if there are none."""
        return statistics.mean(self.figures.values()) if self.figures else float("nan")

    @property
    def spread(self) -> float | None:
        """The standard deviation over the seeds; None with fewer than two."""
        return statistics.stdev(self.figures.values()) if len(self.figures) > 1 else None

    @property
    def text(self) -> str:
        """Mean and standard deviation."""
        if not self.figures:
            return "–"
        return f"{self.mean:.3f}" + ("" if self.spread is None else f" ± {self.spread:.3f}")


@dataclasses.dataclass
class Comparison:
    """The outcome of a comparison.

    Args:
        title: the title: what was compared on which data.
        figure: name of the metric.
        entries: the attentions in the requested order, then the simple baselines.
        baseline: name of the entry with which the others are compared.
        sign: 1 if larger values are better, −1 if smaller ones are.
        notes: remarks on the data and the metrics.
        examples: heat maps of one text for every attention, for the page.
    """

    title: str
    figure: str
    entries: list[Entry]
    baseline: str = "softmax"
    sign: int = 1
    notes: list[str] = dataclasses.field(default_factory=list)
    examples: Sequence[Any] = ()

    def __getitem__(self, name: str) -> Entry:
        """Return the entry with this name."""
        return next(entry for entry in self.entries if entry.name == name)

    @property
    def best(self) -> Entry | None:
        """The attention with the best mean; None if every run failed."""
        found = [one for one in self.entries if one.figures and not one.simple]
        return max(found, key=lambda one: self.sign * one.mean, default=None)

    def difference(self, entry: Entry) -> Difference | None:
        """Return the difference from the baseline; None if the two share no seeds."""
        base = self[self.baseline]
        seeds = sorted(base.figures if entry.simple else base.figures.keys() & entry.figures.keys())
        if entry is base or not seeds or not entry.figures:
            return None
        scores = []
        for one in (entry, base):
            places = [0 if one.simple else seed for seed in seeds]
            items = [one.items[place] for place in places if place in one.items]
            scores.append((items, [one.figures[place] for place in places]))
        whole = all(len(items) == len(seeds) for items, _ in scores)
        if whole and len({len(item) for items, _ in scores for item in items}) == 1:
            return differences.difference(np.stack(scores[0][0]), np.stack(scores[1][0]), self.sign)
        ours, theirs = (np.array(figures) for _, figures in scores)
        return differences.difference(ours, theirs, self.sign)

    def rows(self) -> list[list[str]]:
        """Return the table as strings: a row of headings, then one row per entry."""
        costs = [name for name in COSTS if any(name in one.costs for one in self.entries)]
        rated = any(entry.rate for entry in self.entries)
        head = ["attention", self.figure, f"difference to {self.baseline}", "verdict"]
        rows = [[*head, *["rate"] * rated, *(COSTS[name][0] for name in costs)]]
        for entry in self.entries:
            versus = self.difference(entry)
            if entry.errors:
                verdict = f"{len(entry.errors)} failed: {next(iter(entry.errors.values()))}"
            else:
                verdict = versus.verdict if versus else ""
            rows.append(
                [
                    *(entry.name, entry.text, versus.text() if versus else "", verdict),
                    *[entry.rate] * rated,
                    *(
                        COSTS[c][1].format(entry.costs[c]) if c in entry.costs else ""
                        for c in costs
                    ),
                ]
            )
        return rows

    def table(self) -> str:
        """Return the table for a terminal, with the notes below it."""
        return "\n".join([self.title, "", aligned(self.rows()), "", *self.findings()])

    def markdown(self) -> str:
        """Return the table in Markdown, with a heading and the notes."""
        head, *rows = [[cell.replace("|", "\\|") for cell in row] for row in self.rows()]
        lines = [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)]
        return "\n".join(
            [f"# {self.title}", "", *lines, "", *(f"- {one}" for one in self.findings())]
        )

    def findings(self) -> list[str]:
        """Return the notes and an explanation of the intervals, as sentences."""
        found = [one for one in map(self.difference, self.entries) if one is not None]
        notes = list(self.notes)
        if any(one.half is None for one in found):
            notes.append("One seed ranks nothing: a verdict needs at least two, better three.")
        elif found:
            over = "seeds and test items" if all(one.items for one in found) else "seeds"
            notes.append(
                f"± after a mean is the standard deviation, and after a difference a 95% interval "
                f"over {over}."
            )
        return notes

    def to_html(self) -> str:
        """Return the comparison as a self-contained HTML page.

        Raises:
            UserError: jinja2 or Matplotlib is not installed (extra `report`).
        """
        from keras_quasiattn.lab.comparison.page import html_of

        return html_of(self)

    def _repr_html_(self) -> str:
        from keras_quasiattn.lab.comparison.page import fragment_of

        return fragment_of(self)
