"""The results of a table: one line per row, with spreads, baselines and differences."""

import dataclasses
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.comparison.experiments import Figure, Row, Table
from keras_quasiattn.lab.comparison.records import Key, Record, by_key, key_of, read_records

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
    """The records of a results file and of the `baselines.jsonl` in its folder."""

    def __init__(self, file: Path) -> None:
        self.found: Mapping[Key, Mapping[int, Record]] = by_key(_checked(file, _OF_RUNS))
        self.baselines = _checked(file.parent / "baselines.jsonl", _OF_BASELINES)


def _checked(file: Path, known: Mapping[str, type]) -> Sequence[Record]:
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
            seeds = [
                seed
                for seed in sorted(line.runs.keys() & other.runs.keys())
                if _measured(line.runs[seed], figure) and _measured(other.runs[seed], figure)
            ]
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
    settings = table.chosen(row, recorded.found)
    runs: Mapping[int, Record] = {}
    if settings is not None:
        key = row.with_settings(settings).key(table.split)
        runs = dict(sorted(recorded.found.get(key, {}).items()))
    figures = {
        heading: spread
        for heading, figure in table.figures.items()
        if (spread := _spread(runs.values(), figure)) is not None
    }
    return Line(row, settings, runs, figures, _baselines(table, row, runs, recorded))


def _baselines(
    table: Table, row: Row, runs: Mapping[int, Record], recorded: Recorded
) -> dict[str, float]:
    """Return the metrics of the baselines on the row's data."""
    figure = table.main
    beside = [
        record
        for record in recorded.baselines
        if [record.get(name) for name in ("task", "preset", "split")]
        == [row.task, row.preset, table.split]
    ]
    found = {}
    for record in [*beside, *runs.values()]:
        for name, prefix in BASELINES.items():
            if f"{prefix}_{figure.name}" in record:
                found[name] = record[f"{prefix}_{figure.name}"] / figure.divisor
    return found


def _measured(run: Record, figure: Figure) -> bool:
    return type(run.get(figure.name)) in (int, float)


def _spread(runs: Iterable[Record], figure: Figure) -> Spread | None:
    values = [run[figure.name] / figure.divisor for run in runs if _measured(run, figure)]
    if not values:
        return None
    if not all(map(math.isfinite, values)):  # training diverged
        return Spread(math.nan, math.nan, len(values))
    deviation = statistics.stdev(values) if len(values) > 1 else None
    return Spread(statistics.mean(values), deviation, len(values))


def grid(table: Table, row: Row, recorded: Recorded) -> list[tuple[dict[str, Any], Spread | None]]:
    """Return the validation metric of each combination for a row; None where it has no run."""
    figure = table.figure_called(table.choose)
    return [
        (
            point,
            _spread(
                recorded.found.get(row.with_settings(point).key("validation"), {}).values(), figure
            ),
        )
        for point in table.points()
    ]
