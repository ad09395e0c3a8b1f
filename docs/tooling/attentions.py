"""Every attention on five tasks, in one table and one chart, for "Which layer for what".

`python docs/tooling/attentions.py` writes both from `examples/papers/attentions.toml`, its records
and the costs that `python -m benchmarks.layers` measured.
"""

import json
import re
import statistics
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from keras_quasiattn.lab.comparison.differences import AHEAD, BEHIND
from keras_quasiattn.lab.comparison.experiments import Figure, read_experiments
from keras_quasiattn.lab.comparison.tables import Line, Recorded, outcome

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "guides" / "which-layer.md"
TABLE = re.compile(r"(?<=<!-- attentions -->\n).*?(?=<!-- end of attentions -->)", re.DOTALL)
COSTS = ROOT / "benchmarks" / "results" / "layers.json"
# Batch, length, width and heads of the benchmark that the cost is from, and its kind.
SIZE = {"batch": 16, "length": 128, "width": 256, "heads": 4, "way": "train_on_batch"}


@cache
def measured() -> Mapping[str, tuple[str, Figure, Mapping[str, Line]]]:
    """Return, by task, its figure by name, and the lines of the attentions."""
    found = {}
    for table in read_experiments(ROOT / "examples" / "papers" / "attentions.toml"):
        ((heading, figure),) = table.figures.items()
        lines = {one.row.name: one for one in outcome(table, Recorded(table.records))}
        found[table.name] = heading, figure, lines
    return found


def costs() -> dict[str, float]:
    """Return a layer's time of an update, divided by the time of Keras' own."""
    rows = json.loads(COSTS.read_text(encoding="utf-8"))["rows"]
    return {row["layer"]: row["ratio"] for row in rows if SIZE.items() <= row.items()}


def by_mean_rank() -> dict[str, float]:
    """Return the mean over the tasks of each attention's rank, the best first."""
    ranks: dict[str, list[int]] = {}
    for heading, figure, lines in measured().values():
        means = {name: figure.sign * line.figures[heading].mean for name, line in lines.items()}
        for rank, name in enumerate(sorted(means, key=lambda x: -means[x]), 1):
            ranks.setdefault(name, []).append(rank)
    found = {name: statistics.mean(places) for name, places in ranks.items()}
    return dict(sorted(found.items(), key=lambda item: item[1]))


def table() -> str:
    """Return the table in Markdown; bold is what is ahead of softmax, italic what is behind."""
    tasks, cost = measured(), costs()
    headings = [f"{name}, {heading}" for name, (heading, _, _) in tasks.items()]
    rows = [["attention", *headings, "mean rank", "cost"], ["---"] * (len(tasks) + 3)]
    for name, rank in by_mean_rank().items():
        cells = []
        for heading, figure, lines in tasks.values():
            difference = lines[name].difference
            verdict = "" if difference is None else difference.verdict
            mark = {AHEAD: "**", BEHIND: "*"}.get(verdict, "")
            digits = 2 if figure.sign < 0 else 3
            cells.append(f"{mark}{lines[name].figures[heading].text(digits)}{mark}")
        price = f"{cost[name]:.2f}" if name in cost else ""
        rows.append([f"`{name}`", *cells, f"{rank:.1f}", price])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def page() -> str:
    """Return the page with the table as the records have it."""
    return TABLE.sub(lambda _: table(), PAGE.read_text(encoding="utf-8"))


def chart(output: Path) -> None:
    """Draw a panel a task and one of the costs, a line an attention."""
    import matplotlib.pyplot as plt

    tasks, cost = measured(), costs()
    places = {name: place for place, name in enumerate(by_mean_rank())}
    size = (2.2 * len(tasks) + 3.5, 0.3 * len(places) + 1)
    figure, (*panels, last) = plt.subplots(
        1, len(tasks) + 1, sharey=True, figsize=size, layout="constrained"
    )
    for axes, (task, (heading, shown, lines)) in zip(panels, tasks.items(), strict=True):
        for name, line in lines.items():
            mean, deviation, _ = line.figures[heading]
            style: dict[str, Any] = {"fmt": "o", "color": "C0", "markersize": 4, "capsize": 2}
            axes.errorbar(mean, places[name], xerr=deviation, **style)
        mean, deviation, _ = lines["softmax"].figures[heading]
        spread = deviation or 0.0
        axes.axvspan(mean - spread, mean + spread, color="C1", alpha=0.2, linewidth=0)
        axes.set_title(f"{task},\n{heading}", fontsize="medium")
        if shown.sign < 0:
            axes.invert_xaxis()  # the best at the right
        axes.grid(alpha=0.3)
    priced = {place: cost[name] for name, place in places.items() if name in cost}
    last.barh(list(priced), list(priced.values()), height=0.5, color="0.6")
    last.axvline(1, color="0.3", linewidth=0.8)
    last.set_title("cost of\na training step", fontsize="medium")
    last.set_yticks(list(places.values()), list(places))
    last.invert_yaxis()
    figure.savefig(output)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    chart(ROOT / "docs" / "images" / "mechanisms.png")
