"""What a comparison found: figures with their spread, differences, verdicts and costs."""

import dataclasses
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from keras_quasiattn.lab.comparison import differences
from keras_quasiattn.lab.comparison.differences import Difference

# Heading and format of each cost.
COSTS: Mapping[str, tuple[str, str]] = {
    "step": ("update, ms", "{:.1f}"),
    "answer": ("answer, ms", "{:.2f}"),
    "memory": ("memory, MiB", "{:,.0f}"),
    "weights": ("weights", "{:,.0f}"),
}


@dataclasses.dataclass
class Entry:
    """An attention, or a simple method beside the attentions.

    Args:
        name: its name.
        figures: what it reached, by seed; a method without seeds has one figure, for seed 0.
        items: by seed, the scores of the single test items, whose mean is the figure; empty where
            the figure is no mean over items.
        rate: the learning rate that validation data chose.
        costs: `step`, `answer`, `memory` and `weights`, as far as they were measured.
        errors: why runs failed, by seed.
        simple: whether it is a method without attention, which has no seeds.
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
        """The mean over the seeds; NaN without any."""
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
        title: what was compared on which data.
        figure: the figure's name.
        entries: the attentions in the order that they were asked for; simple methods come last.
        baseline: name of the entry that the others are compared with.
        sign: 1 if a larger figure is better, −1 if a smaller one is.
        notes: what to know about the data and the figures.
        examples: heat maps of one text under every attention, for the page.
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
        """Return the difference to the baseline over the seeds that both have.

        None if there are none.
        """
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
        """Return the table as text: a row of headings, then a row for each entry."""
        costs = [name for name in COSTS if any(name in one.costs for one in self.entries)]
        rated = any(entry.rate for entry in self.entries)
        rows = [
            [
                *("attention", self.figure, f"difference to {self.baseline}", "verdict"),
                *(["rate"] if rated else []),
                *(COSTS[name][0] for name in costs),
            ]
        ]
        for entry in self.entries:
            versus = self.difference(entry)
            if entry.errors:
                verdict = f"{len(entry.errors)} failed: {next(iter(entry.errors.values()))}"
            else:
                verdict = versus.verdict if versus else ""
            rows.append(
                [
                    *(entry.name, entry.text, text_of(versus), verdict),
                    *([entry.rate] if rated else []),
                    *(
                        COSTS[c][1].format(entry.costs[c]) if c in entry.costs else ""
                        for c in costs
                    ),
                ]
            )
        return rows

    def table(self) -> str:
        """Return the table for a terminal, with the notes below it."""
        rows = self.rows()
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        return "\n".join([self.title, "", *lines, "", *self.told()])

    def markdown(self) -> str:
        """Return the table in Markdown, with a heading and the notes."""
        head, *rows = [[cell.replace("|", "\\|") for cell in row] for row in self.rows()]
        lines = [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)]
        return "\n".join([f"# {self.title}", "", *lines, "", *(f"- {one}" for one in self.told())])

    def told(self) -> list[str]:
        """Return the notes, with what the intervals mean, as sentences."""
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
        """Return the comparison as one HTML page, which needs no network and no other file.

        Raises:
            UserError: jinja2 or Matplotlib is not installed (extra `report`).
        """
        from keras_quasiattn.lab.comparison.page import html_of

        return html_of(self)

    def _repr_html_(self) -> str:
        from keras_quasiattn.lab.comparison.page import fragment_of

        return fragment_of(self)


def text_of(one: Difference | None) -> str:
    """Return a difference with its interval as text; empty for none."""
    if one is None:
        return ""
    half = "" if one.half is None else f" ± {one.half:.3f}"
    return f"{one.mean:+.3f}{half}".replace("-", "−")
