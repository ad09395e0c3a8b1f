"""The results of a table, one line per row, and their format for a terminal and as Markdown."""

import dataclasses
import itertools
import math
import statistics
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.comparison.experiments import (
    Figure,
    Key,
    Record,
    Row,
    Table,
    by_key,
    figures_in,
    is_number,
    key_of,
    read_records,
)
from keras_quasiattn.lab.training.config import part_name

if TYPE_CHECKING:
    from keras_quasiattn.lab.comparison.differences import Difference

# The baselines, and the names of their metrics in a record.
BASELINES: Final = {"bag of words": "bag_of_words", "majority": "majority"}
_OF_BASELINES: Final[Mapping[str, type]] = dict.fromkeys(("task", "preset", "split"), str)
_OF_RUNS: Final[Mapping[str, type]] = {
    **_OF_BASELINES,
    **{"model": str, "seed": int, "options": dict, "command": str},
}
ENOUGH: Final = 3  # fewest seeds for a ranking
FEW: Final = "\\* fewer than three seeds, which rank nothing."


class Spread(NamedTuple):
    """A metric over the seeds."""

    mean: float
    deviation: float | None
    seeds: int

    def text(self, digits: int) -> str:
        """Return mean ± deviation, with this number of decimals."""
        beside = "" if self.deviation is None else f" ± {self.deviation:.{digits}f}"
        return f"{self.mean:.{digits}f}".replace("-", "−") + beside


@dataclasses.dataclass(frozen=True)
class Line:
    """A row of a table with the results of its runs."""

    row: Row
    settings: Mapping[str, Any] | None  # from the grid; None until one is chosen
    runs: Mapping[int, Record]
    figures: Mapping[str, Spread]
    baselines: Mapping[str, float]
    difference: "Difference | None" = None


class Recorded:
    """The records of a results file and of the `baselines.jsonl` in its folder.

    `failed` are the keys of runs that were tried and have no record.
    """

    def __init__(self, file: Path, failed: Collection[Key] = ()) -> None:
        self.failed = failed
        self.found: Mapping[Key, Mapping[int, Record]] = by_key(checked_records(file))
        self.baselines = checked_records(file.parent / "baselines.jsonl", _OF_BASELINES)


def checked_records(file: Path, known: Mapping[str, type] = _OF_RUNS) -> Sequence[Record]:
    """Return the records of a results file, by default of runs; the error names a wrong line."""
    records = read_records(file)
    for number, record in enumerate(records, 1):
        wrong = [name for name, kind in known.items() if type(record.get(name)) is not kind]
        if wrong:
            raise UserError(f"{file}, line {number}: not a record, because {wrong[0]!r} is missing")
        try:
            if "command" in known:
                key_of(record)
        except (KeyError, ValueError, UserError) as error:
            raise UserError(f"{file}, line {number}: not a record of a run: {error}") from None
    return records


def outcome(table: Table, recorded: Recorded) -> list[Line]:
    """Return a line for each row of the table, measured or not, grouped by data."""
    import numpy as np

    from keras_quasiattn.lab.comparison.differences import difference

    figure = table.main
    data = list(dict.fromkeys(row.preset for row in table.rows))
    rows = sorted(table.rows, key=lambda row: data.index(row.preset))
    lines = [_line(table, row, recorded) for row in rows]
    by_name = {(line.row.preset, line.row.name): line for line in lines if line.row.model}
    for place, line in enumerate(lines):
        other = by_name.get((line.row.preset, line.row.against))
        if line.row.against and other:
            both = sorted(line.runs.keys() & other.runs.keys())
            pairs = (line.runs, other.runs)
            seeds = [s for s in both if all(_measured(runs[s], figure) for runs in pairs)]
            ours, theirs = (
                np.array([one.runs[seed][figure.name] / figure.divisor for seed in seeds])
                for one in (line, other)
            )
            # Training may have diverged: leaving out that seed would be misleading.
            if seeds and bool(np.isfinite([ours, theirs]).all()):
                found = difference(ours, theirs, figure.sign)
                lines[place] = dataclasses.replace(line, difference=found)
    return lines


def _line(table: Table, row: Row, recorded: Recorded) -> Line:
    if not row.model:
        return Line(row, {}, {}, {}, {})
    part = part_name("validation", table.limit)
    failed = [
        point for point in table.points() if row.with_settings(point).key(part) in recorded.failed
    ]
    settings = table.chosen(row, recorded.found, failed)
    runs: Mapping[int, Record] = {}
    if settings is not None:
        measured = table.runs_of(row.with_settings(settings), table.split, recorded.found)
        runs = dict(sorted(measured.items()))
    figures = {
        heading: spread
        for heading, figure in table.figures.items()
        if (spread := _spread(runs.values(), figure)) is not None
    }
    return Line(row, settings, runs, figures, _baselines(table, row, runs, recorded))


def _baselines(
    table: Table, row: Row, runs: Mapping[int, Record], recorded: Recorded
) -> dict[str, float]:
    """Return the metrics of the baselines on the row's data, of the same version."""
    figure = table.main
    split = part_name(table.split, table.limit)
    data = {"task": row.task, "preset": row.preset, "split": split}
    versions = {run.get("data", {}).get("version") for run in runs.values()} or {None}
    beside = [
        record
        for record in recorded.baselines
        if data.items() <= record.items()
        and not versions.isdisjoint({record.get("data", {}).get("version"), None})
    ]
    found = {}
    for record in [*beside, *runs.values()]:
        for name, prefix in BASELINES.items():
            if f"{prefix}_{figure.name}" in record:
                found[name] = record[f"{prefix}_{figure.name}"] / figure.divisor
    return found


def _measured(run: Record, figure: Figure) -> bool:
    return is_number(run.get(figure.name))


def _spread(runs: Iterable[Record], figure: Figure) -> Spread | None:
    values = [run[figure.name] / figure.divisor for run in runs if _measured(run, figure)]
    if not values:
        return None
    if not all(map(math.isfinite, values)):  # training diverged
        return Spread(math.nan, math.nan, len(values))
    deviation = statistics.stdev(values) if len(values) > 1 else None
    return Spread(statistics.mean(values), deviation, len(values))


def markdown(table: Table, lines: Sequence[Line]) -> str:
    """Return the table in Markdown, without title and note."""
    return piped(_cells(table, lines)) + (f"\n\n{FEW}" if few(lines) else "")


def terminal(table: Table, recorded: Recorded) -> str:
    """Return the table for a terminal: title, note, columns, and validation metrics of the grid."""
    lines = outcome(table, recorded)
    return "\n".join(
        part
        for part in (
            f"{table.name}: {table.title}",
            "figures of validation data" if table.split == "validation" else "",
            table.note,
            aligned(_cells(table, lines)),
            FEW.removeprefix("\\") if few(lines) else "",
            *_unknown(table, lines),
            *_chosen(table, lines, recorded),
        )
        if part
    )


def few(lines: Sequence[Line]) -> bool:
    """Return whether a line has runs, but too few for a ranking."""
    return any(0 < len(line.runs) < ENOUGH for line in lines)


def _cells(table: Table, lines: Sequence[Line]) -> list[list[str]]:
    """Return headings and cells without columns that are empty in every row."""
    compared = {line.row.against for line in lines if line.difference}
    over = f" over {compared.pop()}" if len(compared) == 1 else ""
    rows = [_row(table, line, over) for line in lines]
    one_set = len({row["data"] for row in rows}) == 1 < len(rows)
    kept = [name for name in rows[0] if any(row[name] for row in rows)][one_set:]
    return [kept, *([row[name] for name in kept] for row in rows)]


def _row(table: Table, line: Line, over: str) -> dict[str, str]:
    runs, found, digits = len(line.runs), line.difference, table.main.digits
    difference = (
        f"{found.text(digits)}{'' if over else f' over {line.row.against}'}" if found else ""
    )
    measured = f"{runs}{'*' if runs < ENOUGH else ''}" if runs else ""
    return {
        "data": table.data.get(line.row.preset, line.row.preset),
        "model": line.row.name,
        f"paper: {table.paper}": ", ".join(line.row.paper.split()),
        **{
            heading: line.figures[heading].text(figure.digits) if heading in line.figures else ""
            for heading, figure in table.figures.items()
        },
        **{
            name: f"{line.baselines[name]:.{digits}f}" if name in line.baselines else ""
            for name in BASELINES
        },
        "seeds": measured or ("not run" if line.row.model else ""),
        f"difference{over}, 95% interval": difference,
        "verdict": found.verdict if found else "",
    }


def _unknown(table: Table, lines: Sequence[Line]) -> Iterator[str]:
    """Return a line for every figure of the table that none of its runs has."""
    runs = [run for line in lines for run in line.runs.values()]
    known = {name for run in runs for name in figures_in(run)}
    for figure in table.figures.values():
        if runs and not any(_measured(run, figure) for run in runs):
            yield f"no run has this: {UserError.unknown('figure', figure.name, known)}"


def _chosen(table: Table, lines: Sequence[Line], recorded: Recorded) -> Iterator[str]:
    """Return the validation metrics of the grid, if there is one, with the choices marked."""
    if not table.grid:
        return
    yield f"chosen by {table.choose} of validation data:"
    shown = [figure for figure in table.figures.values() if figure.name == table.choose]
    figure = [*shown, Figure(table.choose)][0]
    rows = []
    for line, point in itertools.product((one for one in lines if one.row.model), table.points()):
        runs = table.runs_of(line.row.with_settings(point), "validation", recorded.found)
        spread = _spread(runs.values(), figure)
        words = ", ".join(f"{name.split('.', 1)[1]}={value}" for name, value in point.items())
        value = "not run" if spread is None else spread.text(figure.digits)
        seeds = "" if spread is None else str(spread.seeds)
        mark = "chosen" if point == line.settings else ""
        rows.append([f"  {line.row.name}", line.row.preset, words, value, seeds, mark])
    yield aligned(rows)


def piped(rows: Sequence[Sequence[str]]) -> str:
    """Return headings and rows of cells as a table in Markdown."""
    return "\n".join(
        f"| {' | '.join(cell.replace('|', '&#124;') for cell in row)} |"
        for row in (rows[0], ["---"] * len(rows[0]), *rows[1:])
    )


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Return rows of cells as lines with aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )
