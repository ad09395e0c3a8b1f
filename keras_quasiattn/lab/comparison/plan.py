"""The runs that a table needs, their order, and their records."""

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_quasiattn.lab.comparison.experiments import (
    VECTORS,
    Record,
    Row,
    Table,
    by_key,
)

Point = Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Job:
    """A job on one row; by default to train a run and measure it."""

    kind: str = "run"  # or "cost", "baselines" or "examples"
    row: Row = dataclasses.field(default=Row("", "", "", ""), compare=False)
    seed: int = 0
    split: str = "test"
    path: Path = Path()
    limit: int | None = None
    items: Path = Path()  # folder for the scores of single examples
    data_dir: Path = Path("data")
    policy: str = "float32"
    command: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    assets: Path | None = None  # learned by another task from the same data

    @property
    def scores(self) -> Path:
        """The file for the scores of single examples."""
        return self.items / f"{self.path.name}-{self.split}.npy"


class Plan:
    """The runs of a table: first the grid, then all seeds of each row at its best combination."""

    def __init__(
        self,
        table: Table,
        records: Sequence[Record],
        path_of: Callable[[Row, Point, int], Path],
        vectors: str | None = None,
        like: Job = Job(),
    ) -> None:
        self.table = table
        self.rows = [row for row in table.rows if row.model]
        self.failed: dict[Job, str] = {}
        self._path_of = path_of
        self._like = dataclasses.replace(like, limit=table.limit)
        self._vectors = vectors
        self._begun: set[Job] = set()
        self._seeds = range(table.first_seed, table.first_seed + table.seeds)
        self._found = {key: dict(seeds) for key, seeds in by_key(records).items()}

    def next(self) -> Job | None:
        """Return a missing run whose options are known, or None."""
        run = next(filter(self._is_missing, self._runs()), None)
        if run is not None:
            self._begun.add(run)
        return run

    def done(self, run: Job, record: Record | str) -> None:
        """Store a run's record, or its error."""
        if isinstance(record, str):
            self.failed[run] = record
        else:
            self._found.setdefault(run.row.key(run.split), {})[run.seed] = record

    def chosen(self, row: Row) -> Point | None:
        """Return the best combination of the grid for a row; None while a run is missing."""
        failed = [
            point
            for point, run in zip(self.table.points(), self._trials(row), strict=True)
            if run in self.failed
        ]
        return self.table.chosen(self._with(row, {}), self._found, failed)

    def records(self, row: Row) -> dict[int, Record]:
        """Return the records of a row at its best combination by seed; empty while unknown."""
        point = self.chosen(row)
        if point is None:
            return {}
        found = self._found.get(self._with(row, point).key(self.table.split), {})
        return {seed: found[seed] for seed in self._seeds if seed in found}

    def run_of(self, row: Row, seed: int) -> Job:
        """Return a run of a row at its best combination, which must be known."""
        return self._run(row, self.chosen(row) or {}, seed, self.table.split)

    def errors(self, row: Row) -> dict[int, str]:
        """Return the errors of failed runs of a row at its best combination, by seed."""
        return {
            run.seed: why for run, why in self.failed.items() if run == self.run_of(row, run.seed)
        }

    def trainings(self) -> list[Row]:
        """Return the row of each training that is yet to begin, including later seeds."""
        # With a grid, a run that chose from it is the run with the first seed.
        first = 1 if len(self.table.points()) > 1 else 0
        later = self._seeds[first:]
        known = (run for run in self._runs() if run.split == "validation" or run.seed in later)
        waiting = [row for row in self.rows if self.chosen(row) is None]
        return [run.row for run in known if self._is_missing(run)] + waiting * len(later)

    def _trials(self, row: Row) -> list[Job]:
        """Return the runs that choose from the grid."""
        seed = self.table.first_seed
        return [self._run(row, point, seed, "validation") for point in self.table.points()]

    def _runs(self) -> Iterator[Job]:
        """Yield every run whose options are known."""
        points = self.table.points()
        if len(points) > 1:
            for point, row in itertools.product(points, self.rows):
                yield self._run(row, point, self.table.first_seed, "validation")
        for seed, row in itertools.product(self._seeds, self.rows):
            if self.chosen(row) is not None:
                yield self.run_of(row, seed)

    def _run(self, row: Row, point: Point, seed: int, split: str) -> Job:
        full = self._with(row, point)
        path = self._path_of(row, point, seed)
        return dataclasses.replace(self._like, row=full, seed=seed, split=split, path=path)

    def _with(self, row: Row, point: Point) -> Row:
        vectors = {VECTORS: self._vectors} if self._vectors and row.wants_vectors else {}
        return row.with_settings({**point, **vectors})

    def _is_missing(self, run: Job) -> bool:
        recorded = self._found.get(run.row.key(run.split), {})
        return run.seed not in recorded and run not in self._begun and run not in self.failed
