"""The HTML page of a comparison, and its display in a notebook."""

import dataclasses
import html
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from keras_quasiattn.extras import MissingPackageError
from keras_quasiattn.lab.comparison.differences import NONE_SHOWN
from keras_quasiattn.report.figures import Drawing
from keras_quasiattn.report.heat_maps import Example, HeatMap
from keras_quasiattn.report.page_writer import Section, page

if TYPE_CHECKING:
    from keras_quasiattn.lab.comparison.compared import Comparison


def html_of(comparison: "Comparison") -> str:
    """Return the page: table, differences with intervals, metric against cost, and an example."""
    drawn = [differences(comparison)]
    if any("step" in entry.costs for entry in comparison.entries):
        drawn.append(against_cost(comparison))
    found = Section("What was found", table=comparison.rows(), text=" ".join(comparison.findings()))
    lead = [found, Section("Differences and costs", drawn)]
    return page(comparison.title, lead=lead, examples=comparison.examples)


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


def fragment_of(comparison: "Comparison") -> str:
    """Return the table as HTML, below a figure of the differences if Matplotlib is installed."""
    head, *rows = comparison.rows()
    cells = "".join(f"<th>{html.escape(cell)}</th>" for cell in head)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    notes = "".join(f"<p>{html.escape(note)}</p>" for note in comparison.findings())
    try:
        picture = differences(comparison).light.decode()
        picture = picture[picture.index("<svg") :]
    except MissingPackageError:
        picture = ""
    table = f"<table><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table>"
    return f"<h3>{html.escape(comparison.title)}</h3>{picture}{table}{notes}"


def differences(comparison: "Comparison") -> Drawing:
    """Plot every entry's difference from the baseline with its interval."""
    found = [(entry.name, comparison.difference(entry)) for entry in comparison.entries]
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
        axes.set(xlabel=f"{comparison.figure}, difference to {comparison.baseline}")
        axes.set_ylim(-0.6, len(shown) - 0.4)

    caption = (
        f"Differences to {comparison.baseline} with their 95% intervals. "
        "A hollow mark: no difference shown."
    )
    listed = "; ".join(f"{name} {one.mean:+.3f} ± {one.half or 0:.3f}" for name, one in shown)
    height = 1.2 + 0.32 * max(len(shown), 1)
    return Drawing("differences", caption, f"{caption} {listed}", draw, (6.2, height))


def against_cost(comparison: "Comparison") -> Drawing:
    """Plot every entry's metric with its spread over the seeds against the time of an update."""
    shown = [one for one in comparison.entries if one.figures and "step" in one.costs]

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
        for entry in comparison.entries:
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
        axes.set(xlabel="time of an update, ms", ylabel=comparison.figure)
        axes.margins(x=0.2)

    caption = f"{comparison.figure} with its standard deviation over seeds, against training time."
    listed = "; ".join(f"{one.name} {one.mean:.3f} at {one.costs['step']:.1f} ms" for one in shown)
    return Drawing("accuracy_against_cost", caption, f"{caption} {listed}", draw)
