"""Plots of attention and of training, drawn with Matplotlib for light and for dark pages."""

import collections
import dataclasses
import functools
import io
import statistics
import textwrap
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_quasiattn.extras import require
from keras_quasiattn.files import write
from keras_quasiattn.report.attention_figures import shares
from keras_quasiattn.report.heat_maps import HeatMap

_LABELLED = 60  # an axis with more tokens than this gets no labels
_SHOWN_STEPS = 6  # histograms in a figure, at evenly spaced steps
_SETTINGS = {
    "svg.fonttype": "none",  # text stays text, in any script
    "svg.hashsalt": "keras_quasiattn",
    "text.parse_math": False,  # a token may contain a dollar sign
    "figure.constrained_layout.use": True,
    "savefig.transparent": False,
}
# By update: the mean, smallest and largest value over some runs, and their number.
Curve = list[dict[str, Any]]

_SHEETS = {"light": "default", "dark": "dark_background"}
# Colours that are distinct for any colour vision, from Okabe and Ito, on light and dark pages.
_COLOURS = {
    "light": ("#0072b2", "#d55e00", "#009e73", "#b5568f", "#b07c00", "#3a87c0", "#6a3d9a"),
    "dark": ("#56b4e9", "#ff8a4c", "#2cc79a", "#e79bc4", "#f2c14e", "#9ad1f5", "#b79ce0"),
}
_STYLES = {"solid": "-", "dashed": "--", "dotted": ":"}
_PAPER = "#161616"  # of a dark page
_LINES = {"near_minus_one": "near −1", "near_zero": "near 0", "near_one": "near 1"}


@dataclasses.dataclass(frozen=True)
class Drawing:
    """A figure that is drawn when it is first used."""

    name: str
    caption: str
    description: str
    draw: Callable[[Any], None]
    size: tuple[float, float] = (6.2, 3.6)

    @functools.cached_property
    def light(self) -> bytes:
        """SVG on white."""
        return self._drawn("light", "svg")

    @functools.cached_property
    def dark(self) -> bytes:
        """SVG on the paper of a dark page."""
        return self._drawn("dark", "svg")

    @functools.cached_property
    def png(self) -> bytes:
        """PNG on white."""
        return self._drawn("light", "png")

    def save(self, folder: Path) -> list[Path]:
        """Write name.svg and name.png, and return their paths."""
        files = {folder / f"{self.name}.svg": self.light, folder / f"{self.name}.png": self.png}
        for file, data in files.items():
            write(file, data)
        return list(files)

    def _drawn(self, sheet: str, ending: str) -> bytes:
        names = ("matplotlib", "matplotlib.style", "matplotlib.figure", "cycler")
        matplotlib, style, figures, cycle = (require(name, "report") for name in names)
        cycler = cycle.cycler
        lines = cycler(linestyle=list(_STYLES.values())) * cycler(color=_COLOURS[sheet])
        settings = {**_SETTINGS, "axes.prop_cycle": lines}
        if sheet == "dark":
            papers = ("figure.facecolor", "axes.facecolor", "savefig.facecolor")
            settings |= dict.fromkeys(papers, _PAPER)
        with (
            style.context(_SHEETS[sheet]),
            matplotlib.rc_context(settings),
            warnings.catch_warnings(),
        ):
            # The PNG shows a box instead.
            warnings.filterwarnings("ignore", message="Glyph .* missing from")
            figure = figures.Figure(figsize=self.size)
            self.draw(figure)
            stream = io.BytesIO()
            details = {"Date": None} if ending == "svg" else None
            figure.savefig(stream, format=ending, dpi=120, metadata=details)
            return stream.getvalue()


def curves_of(
    histories: Iterable[tuple[str, Sequence[Mapping[str, Any]]]], figure: str
) -> dict[str, Curve]:
    """Return the curve of each group of runs at the updates that all its runs share.

    >>> histories = [("coda", [{"step": 5, "loss": 2.0}]), ("coda", [{"step": 5, "loss": 4.0}])]
    >>> curves_of(histories, "loss")
    {'coda': [{'step': 5, 'mean': 3.0, 'least': 2.0, 'largest': 4.0, 'runs': 2}]}
    """
    runs: dict[str, list[dict[int, float]]] = collections.defaultdict(list)
    for model, rows in histories:
        if values := {row["step"]: row[figure] for row in rows if figure in row}:
            runs[model].append(values)
    curves: dict[str, Curve] = {}
    for model, by_step in sorted(runs.items()):
        for step in sorted(set.intersection(*map(set, by_step))):
            found = [one[step] for one in by_step]
            row = {"step": step, "mean": statistics.mean(found), "least": min(found)}
            row |= {"largest": max(found), "runs": len(found)}
            curves.setdefault(model, []).append(row)
    return curves


def with_runs(model: str, curve: Curve) -> str:
    """Return the name of a line, with the number of its runs if there are several."""
    runs = curve[0]["runs"]
    return f"{model} ({runs} runs)" if runs > 1 else model


def line_of(number: int) -> dict[str, str]:
    """Return the colours on light and dark paper, and the style, of the line with this number."""
    colours = {sheet: names[number % len(names)] for sheet, names in _COLOURS.items()}
    styles = list(_STYLES)
    return {**colours, "style": styles[number // len(_COLOURS["light"]) % len(styles)]}


def learning_curves(
    name: str,
    figure: str,
    curves: Mapping[str, Curve],
    models: Sequence[str] = (),
    *,
    small: bool = False,
) -> Drawing:
    """Plot one line per model, with the range of its runs shaded, as in the Conflict paper."""
    several = any(curve[0]["runs"] > 1 for curve in curves.values())
    legend = (len(curves) > 1 or several) and not small
    names = {model: with_runs(model, curve) for model, curve in curves.items()}
    places = list(models or curves)

    def draw(whole: Any) -> None:
        axes = whole.subplots()
        looks = list(require("matplotlib", "report").rcParams["axes.prop_cycle"])
        for model, curve in curves.items():
            look = looks[places.index(model) % len(looks)]
            steps = [row["step"] for row in curve]
            mark = "o" if len(steps) == 1 else None
            means = [row["mean"] for row in curve]
            axes.plot(steps, means, label=textwrap.fill(names[model], 70), marker=mark, **look)
            if curve[0]["runs"] > 1:
                low, high = ([row[bound] for row in curve] for bound in ("least", "largest"))
                axes.fill_between(steps, low, high, color=look["color"], alpha=0.2, linewidth=0)
        axes.set(xlabel="updates", ylabel="" if small else figure)
        axes.ticklabel_format(axis="y", scilimits=(-3, 5))
        if small:
            axes.set_title(figure, fontsize="medium", loc="left")
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
        if legend:
            whole.legend(loc="outside lower center")

    last = ", ".join(f"{model} {curve[-1]['mean']:.3f}" for model, curve in curves.items())
    shaded = ": the mean of the runs, shaded from the lowest to the highest" if several else ""
    caption = f"{figure}{shaded}."
    size = (2.7, 2.1) if small else (6.2, 3.6)
    rows = sum(len(textwrap.wrap(name, 70)) for name in names.values()) if legend else 0
    description = f"{caption} At the end: {last}."
    return Drawing(name, caption, description, draw, (size[0], size[1] + 0.22 * rows))


def heat_map(name: str, shown: HeatMap, head: int = 0) -> Drawing:
    """Plot the matrices of one head: red above zero, white at zero, blue below zero."""
    colors = require("matplotlib.colors", "report")

    def draw(figure: Any) -> None:
        places = figure.subplots(1, len(shown.panels), squeeze=False)[0]
        for axes, panel in zip(places, shown.panels, strict=True):
            values = panel.values[min(head, len(panel.values) - 1)]  # (T, S)
            image = axes.imshow(
                np.ma.masked_invalid(values),
                cmap="RdBu_r",
                norm=colors.CenteredNorm(0, panel.limit),
                aspect="auto",
            )
            axes.set_title(panel.title)
            for side, tokens in (("x", panel.columns), ("y", panel.rows)):
                ticks = range(len(tokens)) if len(tokens) <= _LABELLED else range(0)
                turned = {"rotation": 90} if side == "x" else {}
                getattr(axes, f"set_{side}ticks")(ticks, [tokens[tick] for tick in ticks], **turned)
            figure.colorbar(image, ax=axes, shrink=0.7)

    rows = max(len(panel.rows) for panel in shown.panels)
    columns = max(len(panel.columns) for panel in shown.panels)
    height = min(12.0, max(3.0, 1.5 + 0.22 * rows))
    width = len(shown.panels) * min(10.0, max(3.5, 2 + 0.22 * columns))
    titles = ", ".join(f"{panel.title} (colours to ±{panel.limit:g})" for panel in shown.panels)
    caption = f"{shown.name}, head {head + 1} of {shown.heads}: {titles}."
    return Drawing(name, caption, caption, draw, (width, height))


def histograms(
    name: str, layer: str, rows: Sequence[Mapping[str, Any]], labels: Mapping[str, str]
) -> Drawing:
    """Plot histograms of a layer's matrices over training, and the shares near −1, 0 and 1."""
    spread = np.linspace(0, len(rows) - 1, _SHOWN_STEPS).round().astype(int)
    chosen = [rows[i] for i in np.unique(spread)]

    def draw(figure: Any) -> None:
        grid = figure.subplots(2, len(labels), squeeze=False)
        viridis = require("matplotlib", "report").colormaps["viridis"]
        colours = viridis(np.linspace(0.1, 0.9, len(chosen)))
        for column, (matrix, label) in enumerate(labels.items()):
            above, below = grid[0][column], grid[1][column]
            for row, colour in zip(chosen, colours, strict=True):
                counts = np.asarray(row["matrices"][f"{layer}/{matrix}"], float)  # (bins,)
                edges = np.linspace(-1, 1, len(counts) + 1)
                heights = counts / max(counts.sum(), 1)
                above.stairs(heights, edges, color=colour, label=f"{row['step']}")
            of_values = "share of the entries" if column == 0 else ""
            above.set(title=label, xlabel="value", ylabel=of_values)
            found = [shares(row["matrices"][f"{layer}/{matrix}"]) for row in rows]
            steps = [row["step"] for row in rows]
            for share, line in _LINES.items():
                below.plot(steps, [one[share] for one in found], ".-", label=line)
            below.set(xlabel="updates", ylabel="share" if column == 0 else "", ylim=(-0.03, 1.03))
        grid[0][-1].legend(title="updates", fontsize="small")
        grid[1][-1].legend(fontsize="small")

    what = "histograms of its matrices over training, and the shares within 0.1 of −1, 0 and 1"
    caption = f"{layer}: {what}."
    return Drawing(name, caption, caption, draw, (3.6 * len(labels) + 0.5, 6))


def density_by_length(name: str, lengths: Sequence[int], densities: Sequence[float]) -> Drawing:
    """Plot the share of open gates in each text against the text's length."""

    def draw(axes: Any) -> None:
        axes.plot(lengths, densities, ".", alpha=0.35)
        # Up to 8 groups of texts of similar length, split at quantiles.
        edges = np.unique(np.quantile(lengths, np.linspace(0, 1, 9)))
        places = np.searchsorted(edges, lengths, side="right") - 1
        places = np.clip(places, 0, max(len(edges) - 2, 0))
        groups = [places == place for place in np.unique(places)]
        mean_lengths = [np.mean(np.asarray(lengths)[group]) for group in groups]
        mean_densities = [np.mean(np.asarray(densities)[group]) for group in groups]
        axes.plot(mean_lengths, mean_densities, "o-", label="mean of texts of similar length")
        axes.set(xlabel="tokens", ylabel="density of open gates", ylim=(-0.03, 1.03))
        axes.legend()

    caption = f"Density of open gates by length, {len(lengths)} texts."
    mean = f"On average {np.mean(densities):.2f} of a text's gates are open."
    return Drawing(name, f"{caption} {mean}", f"{caption} {mean}", lambda f: draw(f.subplots()))


def accuracy_by_density(name: str, rows: Sequence[Mapping[str, Any]]) -> Drawing:
    """Plot the accuracy of recorded runs against their density, one colour per data set."""

    def draw(axes: Any) -> None:
        for preset in dict.fromkeys(row["preset"] for row in rows):
            own = [row for row in rows if row["preset"] == preset]
            densities = [row["density"] for row in own]
            axes.plot(densities, [row["accuracy"] for row in own], "o", label=preset)
        axes.set(xlabel="density of open gates", ylabel="accuracy")
        axes.legend()

    caption = f"Accuracy against density, {len(rows)} recorded runs."
    return Drawing(name, caption, caption, lambda f: draw(f.subplots()))
