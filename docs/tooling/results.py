"""Writes the tables and charts of the results pages from `examples/papers` and `results`.

`python docs/tooling/results.py` rewrites what stands between the marks of a page and leaves the
text. The charts need Matplotlib (`pip install 'keras-quasiattn[report]'`).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from keras_quasiattn.lab.comparison.differences import AHEAD, BEHIND, Difference
from keras_quasiattn.lab.comparison.experiments import Table, read_experiments
from keras_quasiattn.lab.comparison.tables import ENOUGH, FEW, Line, Recorded, markdown, outcome
from keras_quasiattn.report.figures import Drawing

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAPERS = ROOT / "examples" / "papers"
# A table's heading, note and rows, on the page of its file; all of them, in the summary.
BLOCK = re.compile(r"(?<=<!-- table: )(\S+)( -->\n).*?(?=<!-- end of table -->)", re.DOTALL)
SUMMARY = re.compile(r"(?<=<!-- summary -->\n).*?(?=<!-- end of summary -->)", re.DOTALL)
# The tables that compare on test data, in the order of the summary.
COMPARED: Mapping[str, Sequence[str]] = {
    "coda": (
        *("2-wikiqa", "2-wikiqa-words", "2-trecqa", "2-ubuntu-best", "3-best"),
        *("1-squad", "1-retrieved", "4", "5", "5-phrases", "6-demo", "6-best", "6-two-cores", "7"),
    ),
    "ganet": ("2", "words"),
    "conflict": ("1", "trecqa"),
}
# The tables of each chart, which bears its name.
CHARTS: Mapping[str, Mapping[str, Sequence[str]]] = {
    "differences": COMPARED,
    "encoder_differences": {
        "encoder_attentions": (
            "short-trec",
            "long-trec",
            "short-trecqa",
            "short-sst2",
            "short-snli",
            "short-quora",
            "short-wikiqa",
            "short-agnews",
        )
    },
}
TASKS = {
    "classify": "texts",
    "mlu": "arithmetic",
    "pairs": "pairs",
    "programs": "programs",
    "rank": "ranking",
    "read": "reading",
    "translate": "translation",
}


class Compared(NamedTuple):
    """A row of the summary.

    Args:
        line: the model.
        softmax: the row that it is compared with.
        table: their table.
        heading: the figure's name.
        difference: how far they are apart.
        half: half the width of its interval.
    """

    line: Line
    softmax: Line
    table: Table
    heading: str
    difference: Difference
    half: float

    @property
    def data(self) -> str:
        """What the data are called, without their size."""
        return self.table.data[self.line.row.preset].split(",")[0]

    def points(self, value: float) -> float:
        """Return a difference of the figure in points: of 100, or BLEU."""
        return value * (1 if self.heading == "BLEU" else 100)

    def beside(self, name: str) -> float | None:
        """Return a baseline's difference to softmax, in points."""
        value = self.line.baselines.get(name)
        mean = self.softmax.figures[self.heading].mean
        return None if value is None else self.points(value - mean)

    @property
    def paper(self) -> float | None:
        """The paper's own difference, in points; None if it prints none."""
        printed = [line.row.paper.split() for line in (self.line, self.softmax)]
        return self.points(float(printed[0][0]) - float(printed[1][0])) if all(printed) else None


@cache
def tables(paper: str) -> Mapping[str, Table]:
    """Return the tables of a paper, by name."""
    return {table.name: table for table in read_experiments(PAPERS / f"{paper}.toml")}


@cache
def recorded(file: Path) -> Recorded:
    """Return the records of a file, read once."""
    return Recorded(file)


def lines(table: Table) -> list[Line]:
    """Return the lines of a table."""
    return outcome(table, recorded(table.records))


def section(table: Table) -> str:
    """Return a table with its heading and its note."""
    note = f"{table.note}\n\n" if table.note else ""
    validation = "Figures of validation data.\n\n" if table.split == "validation" else ""
    return f"## {table.title}\n\n{note}{validation}{markdown(table, lines(table))}\n"


def page(paper: str) -> str:
    """Return the page of a paper with its tables as the records have them."""
    text = (DOCS / "results" / f"{paper}.md").read_text(encoding="utf-8")
    return BLOCK.sub(lambda found: found[1] + found[2] + section(tables(paper)[found[1]]), text)


def compared(papers: Mapping[str, Sequence[str]] = COMPARED) -> Iterator[Compared]:
    """Return the rows of the summary or a chart: all that are compared with two seeds or more."""
    for paper, names in papers.items():
        for name in names:
            table = tables(paper)[name]
            found = lines(table)
            for line in found:
                difference = line.difference
                if difference and difference.half is not None:
                    other = next(
                        one
                        for one in found
                        if (one.row.name, one.row.preset) == (line.row.against, line.row.preset)
                    )
                    heading = next(iter(table.figures))
                    yield Compared(line, other, table, heading, difference, difference.half)


def summary() -> str:
    """Return all comparisons on test data in one table."""
    headings = ["task", "data", "figure", "softmax at its better setting", "ours", "bag of words"]
    headings += ["seeds", "difference, 95% interval", "verdict"]
    rows = [headings, ["---"] * len(headings)]
    some = list(compared())
    for one in some:
        digits = one.table.figures[one.heading].digits
        bag = one.line.baselines.get("bag of words")
        mark = "\\*" if one.difference.seeds < ENOUGH else ""
        rows.append(
            [
                TASKS[one.line.row.task],
                one.data,
                one.heading,
                one.softmax.figures[one.heading].text(digits),
                f"{one.line.row.name} {one.line.figures[one.heading].text(digits)}",
                "" if bag is None else f"{bag:.{digits}f}",
                f"{one.difference.seeds}{mark}",
                f"{signed(one.points(one.difference.mean))} ± {one.points(one.half):.2f}",
                one.difference.verdict,
            ]
        )
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    marked = any(one.difference.seeds < ENOUGH for one in some)
    return f"{table}\n" + (f"\n{FEW}\n" if marked else "")


def overview() -> str:
    """Return the page with the summary."""
    text = (DOCS / "results.md").read_text(encoding="utf-8")
    return SUMMARY.sub(lambda _: summary(), text)


def drawing(name: str) -> Drawing:
    """Return the chart of this name."""
    rows = list(compared(CHARTS[name]))
    size = (7.6, 0.34 * len(rows) + 1.2)
    title = "Points above softmax attention"
    return Drawing(name, title, title, lambda figure: _draw(figure, rows), size)


def _draw(figure: Any, rows: Sequence[Compared]) -> None:
    axes = figure.subplots()
    axes.axvline(0, color="0.5", linewidth=0.8)
    ours: dict[str, Any] = {"color": "C0", "marker": "o"}
    marks: dict[str, dict[str, Any]] = {
        "paper": {"color": "C1", "marker": "D", "markersize": 5, "linestyle": "none"},
        "bag of words": {"color": "0.4", "marker": "x", "markersize": 5, "linestyle": "none"},
    }
    seen: dict[str, None] = {}  # the marks that the chart has
    for place, row in enumerate(rows):
        mean, half = row.points(row.difference.mean), row.points(row.half)
        shown = row.difference.verdict in (AHEAD, BEHIND)
        axes.errorbar(mean, place, xerr=half, markerfacecolor="C0" if shown else "white", **ours)
        for name, value in (("paper", row.paper), ("bag of words", row.beside("bag of words"))):
            if value is not None:
                axes.plot(value, place + 0.22, **marks[name])
                seen[name] = None
    axes.plot([], [], label="ours, 95% interval", **ours)
    axes.plot([], [], label="no difference shown", markerfacecolor="white", **ours)
    for name in seen:
        axes.plot([], [], label=name, **marks[name])
    axes.set_yticks(range(len(rows)), [label(row) for row in rows], fontsize="small")
    axes.set(xlabel="points above softmax attention", ylim=(len(rows) - 0.5, -0.6))
    axes.grid(axis="x", alpha=0.3)
    axes.legend(loc="lower right", bbox_to_anchor=(1.02, 1), ncols=4, fontsize="small")


def label(row: Compared) -> str:
    """Return a row's label in the chart."""
    return f"{row.data}, {row.heading}: {row.line.row.name}"


def signed(points: float) -> str:
    """Return points with a sign."""
    return f"{points:+.2f}".replace("-", "−")


def main() -> None:
    """Write all pages and charts."""
    (DOCS / "results.md").write_text(overview(), encoding="utf-8")
    for file in sorted((DOCS / "results").glob("*.md")):
        file.write_text(page(file.stem), encoding="utf-8")
    for name in CHARTS:
        (DOCS / "images" / f"{name}.svg").write_bytes(drawing(name).light)


if __name__ == "__main__":
    main()
