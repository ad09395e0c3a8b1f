"""The result of a comparison: metrics with their spread, differences, verdicts, costs; its page."""

import dataclasses
import html
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from keras_quasiattn.extras import MissingPackageError
from keras_quasiattn.lab.comparison.differences import NONE_SHOWN, Difference, difference
from keras_quasiattn.lab.comparison.tables import aligned, piped
from keras_quasiattn.report.figures import Drawing
from keras_quasiattn.report.heat_maps import Example, HeatMap
from keras_quasiattn.report.page_writer import Section, page

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
        baseline: name of the entry with which the others are compared. Defaults to "softmax".
        sign: 1 if larger values are better, −1 if smaller ones are. Defaults to 1.
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
            return difference(np.stack(scores[0][0]), np.stack(scores[1][0]), self.sign)
        ours, theirs = (np.array(figures) for _, figures in scores)
        return difference(ours, theirs, self.sign)

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
            row = [entry.name, entry.text, versus.text() if versus else "", verdict]
            row += [entry.rate] * rated
            row += [COSTS[c][1].format(entry.costs[c]) if c in entry.costs else "" for c in costs]
            rows.append(row)
        return rows

    def table(self) -> str:
        """Return the table for a terminal, with the notes below it."""
        return "\n".join([self.title, "", aligned(self.rows()), "", *self.findings()])

    def markdown(self) -> str:
        """Return the table in Markdown, with a heading and the notes."""
        notes = [f"- {one}" for one in self.findings()]
        return "\n".join([f"# {self.title}", "", piped(self.rows()), "", *notes])

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
        """Return a self-contained page: the table, charts, and the example's heat maps.

        Raises:
            UserError: jinja2 or Matplotlib is not installed (extra `report`).
        """
        drawn = [self.drawn_differences()]
        if any("step" in entry.costs for entry in self.entries):
            drawn.append(self.drawn_costs())
        found = Section("What was found", table=self.rows(), text=" ".join(self.findings()))
        lead = [found, Section("Differences and costs", drawn)]
        return page(self.title, lead=lead, examples=self.examples)

    def _repr_html_(self) -> str:
        """Return the table as HTML, below the differences drawn if Matplotlib is installed."""
        head, *rows = self.rows()
        cells = "".join(f"<th>{html.escape(cell)}</th>" for cell in head)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
            for row in rows
        )
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in self.findings())
        try:
            picture = self.drawn_differences().light.decode()
            picture = picture[picture.index("<svg") :]
        except MissingPackageError:
            picture = ""
        table = f"<table><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table>"
        return f"<h3>{html.escape(self.title)}</h3>{picture}{table}{notes}"

    def drawn_differences(self) -> Drawing:
        """Plot every entry's difference from the baseline with its interval."""
        found = [(entry.name, self.difference(entry)) for entry in self.entries]
        shown = [(name, one) for name, one in found if one is not None]

        def draw(figure: Any) -> None:
            axes = figure.subplots()
            axes.axvline(0, color="gray", linewidth=1)
            for place, (_, one) in enumerate(reversed(shown)):
                filled = one.half is not None and one.verdict != NONE_SHOWN
                axes.errorbar(
                    one.mean,
                    place,
                    xerr=one.half or 0,
                    fmt="o",
                    color="C0",
                    markerfacecolor="C0" if filled else "none",
                    capsize=3,
                )
            axes.set_yticks(range(len(shown)), [name for name, _ in reversed(shown)])
            axes.set(xlabel=f"{self.figure}, difference to {self.baseline}")
            axes.set_ylim(-0.6, len(shown) - 0.4)

        caption = (
            f"Differences to {self.baseline} with their 95% intervals. "
            "A hollow mark: no difference shown."
        )
        listed = "; ".join(f"{name} {one.mean:+.3f} ± {one.half or 0:.3f}" for name, one in shown)
        height = 1.2 + 0.32 * max(len(shown), 1)
        return Drawing("differences", caption, f"{caption} {listed}", draw, (6.2, height))

    def drawn_costs(self) -> Drawing:
        """Plot every entry's metric, with its spread over the seeds, against its update's time."""
        shown = [one for one in self.entries if one.figures and "step" in one.costs]

        def draw(figure: Any) -> None:
            axes = figure.subplots()
            for entry in shown:
                axes.errorbar(
                    entry.costs["step"], entry.mean, yerr=entry.spread or 0, fmt="o", capsize=3
                )
                axes.annotate(
                    entry.name,
                    (entry.costs["step"], entry.mean),
                    xytext=(6, 4),
                    textcoords="offset points",
                )
            for entry in self.entries:
                if entry.simple and entry.figures:
                    axes.axhline(entry.mean, linestyle=":", color="gray", linewidth=1)
                    axes.annotate(
                        entry.name,
                        (0, entry.mean),
                        xycoords=("axes fraction", "data"),
                        xytext=(4, 3),
                        textcoords="offset points",
                        color="gray",
                        fontsize="small",
                    )
            axes.set(xlabel="time of an update, ms", ylabel=self.figure)
            axes.margins(x=0.2)

        caption = f"{self.figure} with its standard deviation over seeds, against training time."
        listed = "; ".join(
            f"{one.name} {one.mean:.3f} at {one.costs['step']:.1f} ms" for one in shown
        )
        return Drawing("accuracy_against_cost", caption, f"{caption} {listed}", draw)


def side_by_side(text: str, examples: Mapping[str, Example]) -> Example:
    """Return heat maps of one text: for every layer, the weights of each attention side by side."""
    layers = zip(*(one.maps for one in examples.values()), strict=False)
    maps = [
        HeatMap(
            maps[0].name.partition(" (")[0],
            [
                dataclasses.replace(one.panels[-1], title=name)
                for name, one in zip(examples, maps, strict=True)
            ],
        )
        for maps in layers
    ]
    answers = "; ".join(f"{name}: {one.answer}" for name, one in examples.items())
    return Example(text, answers, maps)
