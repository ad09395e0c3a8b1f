"""What the mechanisms gain over softmax attention, row by row: the chart on the results page.

`python examples/results_page.py` writes it with the page.
"""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from paper_tables import Entry, PaperTable
from tables import Key, Record

from keras_quasiattn.report.figures import Drawing
from keras_quasiattn.tasks import get

# The model with softmax attention that each model is compared with.
SOFTMAX: Mapping[str, str] = {
    "bilstm_coda": "bilstm_soft",
    "bilstm_gated": "bilstm_soft",
    "coda": "softmax",
    "decaprop_coda": "decaprop",
    "decomposable_coda": "decomposable",
    "seq2seq_coda": "seq2seq_attention",
    "siamese_both": "siamese_attention",
    "siamese_conflict": "siamese_attention",
    "transformer_coda": "transformer",
    "universal_coda": "universal",
    "words_gated": "words_soft",
}
# By task, the first figure that the papers print, and what makes points of it.
FIGURES: Mapping[str, tuple[str, str, float]] = {
    "classify": ("accuracy", "accuracy", 100),
    "mlu": ("exact answers", "sequence_accuracy", 100),
    "pairs": ("accuracy", "accuracy", 100),
    "programs": ("exact programs", "sequence_accuracy", 100),
    "rank": ("MAP", "map", 100),
    "read": ("exact match", "exact_match", 100),
    "translate": ("BLEU", "bleu", 1),
}
LEAST_SEEDS = 3
NAME = "differences"
_MANY = 2  # settings that fit beside a chart
TITLE = "Difference to softmax attention"
_ABOUT = """Points (percentage points, or BLEU) above the same model with softmax attention: the \
mean over seeds of the
difference with the same seed, ± its standard deviation over them. The mark of the paper is its \
own difference, on its own data
and budget. Rows have at least three seeds of both models. A hollow mark says that the two models \
differ in another option, too,
which the last column names; in a row of the table `best`, validation data chose the options of \
each.
"""


class Difference(NamedTuple):
    """How far a model is from its counterpart with softmax attention.

    Args:
        data: the data.
        model: the model.
        softmax: its counterpart.
        figure: name of the figure.
        points: the differences in points, by seed.
        paper: the paper's, if it prints both figures.
        unequal: the options besides the attention that differ.
    """

    data: str
    model: str
    softmax: str
    figure: str
    points: Mapping[int, float]
    paper: float | None
    unequal: tuple[str, ...]

    @property
    def mean(self) -> float:
        """The mean over the seeds."""
        return statistics.mean(self.points.values())

    @property
    def spread(self) -> float:
        """The standard deviation over the seeds."""
        return statistics.stdev(self.points.values())

    @property
    def ours(self) -> str:
        """Mean and spread in words."""
        return f"{_signed(self.mean)} ± {self.spread:.2f}"

    @property
    def printed(self) -> str:
        """The paper's difference in words; empty if there is none."""
        return "" if self.paper is None else _signed(self.paper)


def differences(
    tables: Sequence[PaperTable], runs: Mapping[Key, Sequence[Record]]
) -> list[Difference]:
    """Every row of the tables that has a counterpart beside it, once.

    A model's first row on some data goes by the model's name, a later one also by its settings, or
    by its table's name if they are many.
    """
    found: dict[Key, Difference] = {}
    named = set()
    for table in tables:
        for entry in table.entries:
            if entry.row is None or entry.row.split != "test":
                continue
            key = entry.row.key(table.task)
            if key not in found and (best := _best(table, entry, runs)):
                many = len(entry.row.settings) > _MANY
                label = f"{best.model}, table {entry.row.table}" if many else entry.model
                found[key] = best._replace(model=label) if key[:4] in named else best
                named.add(key[:4])
    return list(found.values())


def _best(
    table: PaperTable, entry: Entry, runs: Mapping[Key, Sequence[Record]]
) -> Difference | None:
    """The difference to the counterpart that has the fewest other options."""
    candidates = _pairs(table, entry, runs)
    return min(candidates, key=lambda one: len(one.unequal), default=None)


def _pairs(
    table: PaperTable, entry: Entry, runs: Mapping[Key, Sequence[Record]]
) -> Iterator[Difference]:
    title, name, factor = FIGURES[table.task]
    own = _by_seed(table, entry, runs)
    for other in table.entries:
        if (
            other.row is None
            or entry.row is None
            or other.row.model != SOFTMAX.get(entry.row.model)
            or (other.row.preset, other.row.split) != (entry.row.preset, entry.row.split)
        ):
            continue
        theirs = _by_seed(table, other, runs)
        seeds = sorted(own.keys() & theirs.keys())
        if len(seeds) < LEAST_SEEDS:
            continue
        printed = [entry.paper.split(), other.paper.split()]
        yield Difference(
            data=entry.data.split(";")[0].split(":")[0].removesuffix(", whole"),
            model=entry.row.model,
            softmax=other.row.model,
            figure=title,
            points={seed: (own[seed][name] - theirs[seed][name]) * factor for seed in seeds},
            paper=(float(printed[0][0]) - float(printed[1][0])) * factor if all(printed) else None,
            unequal=_unequal(own[seeds[0]], theirs[seeds[0]]),
        )


def _by_seed(
    table: PaperTable, entry: Entry, runs: Mapping[Key, Sequence[Record]]
) -> dict[int, Record]:
    found = [] if entry.row is None else runs.get(entry.row.key(table.task), [])
    return {record["seed"]: record for record in found}


def _unequal(one: Record, other: Record) -> tuple[str, ...]:
    """The options that both have, with different values; a path is no setting.

    A run from before an option existed had the preset's value of it.
    """
    ours, theirs = (
        {
            **get(record["task"]).presets[record["preset"]].for_model(record["model"]).options(),
            **record["options"],
        }
        for record in (one, other)
    )
    return tuple(
        f"{name.split('.')[1]} {ours[name]} and {theirs[name]}"
        for name in sorted(ours.keys() & theirs.keys() - {"data.vectors"})
        if ours[name] != theirs[name]
    )


def section(rows: Sequence[Difference]) -> str:
    """The chart's part of the page: the picture, and its numbers."""
    lines = [
        f"## {TITLE}\n",
        f"![{_description(rows)}](images/{NAME}.svg)\n",
        _ABOUT,
        "| data | model | softmax attention | figure | difference | seeds | paper | remark |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        cells = [row.data, row.model, row.softmax, row.figure, row.ours, str(len(row.points))]
        lines.append(f"| {' | '.join([*cells, row.printed, '; '.join(row.unequal)])} |")
    return "\n".join([*lines, ""])


def _description(rows: Sequence[Difference]) -> str:
    """The chart in words."""
    said = (
        f"{row.data}, {row.model} {row.ours}" + (f", paper {row.printed}" if row.printed else "")
        for row in rows
    )
    return f"{TITLE} in points: {'; '.join(said)}"


def write(rows: Sequence[Difference], folder: Path) -> None:
    """Write the chart as SVG."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{NAME}.svg").write_bytes(drawing(rows).light)


def drawing(rows: Sequence[Difference]) -> Drawing:
    """The chart; its numbers stand at the right."""
    size = (7.6, 0.48 * len(rows) + 1.2)
    return Drawing(NAME, TITLE, _description(rows), lambda figure: _draw(figure, rows), size)


def _draw(figure: Any, rows: Sequence[Difference]) -> None:
    axes = figure.subplots()
    axes.axvline(0, color="0.5", linewidth=0.8)
    ours: dict[str, Any] = {"color": "C0", "marker": "o"}
    paper: dict[str, Any] = {"color": "C1", "marker": "D", "markersize": 5, "linestyle": "none"}
    for place, row in enumerate(rows):
        seeds = list(row.points.values())
        axes.plot(seeds, [place - 0.2] * len(seeds), ".", color="C0", alpha=0.5)
        face = "white" if row.unequal else "C0"
        axes.errorbar(row.mean, place, xerr=row.spread, markerfacecolor=face, **ours)
        if row.paper is not None:
            axes.plot(row.paper, place + 0.2, **paper)
    axes.plot([], [], label="mean and spread", **ours)
    axes.plot([], [], label="another option differs", markerfacecolor="white", **ours)
    axes.plot([], [], ".", color="C0", alpha=0.5, label="a seed")
    axes.plot([], [], label="paper", **paper)
    names = [f"{row.data}, {row.figure}\n{row.model}" for row in rows]
    axes.set_yticks(range(len(rows)), names, fontsize="small")
    axes.set(xlabel="points above softmax attention", ylim=(len(rows) - 0.5, -0.5))
    numbers = axes.secondary_yaxis("right")
    beside = [row.ours + (f"\npaper {row.printed}" if row.printed else "") for row in rows]
    numbers.set_yticks(range(len(rows)), beside, fontsize="small")
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=4, fontsize="small")


def _signed(points: float) -> str:
    return f"{points:+.2f}".replace("-", "−")
