"""Train the missing runs of the tables in TOML files."""

import dataclasses
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.comparison.engine import Engine, usual_processes
from keras_quasiattn.lab.comparison.experiments import Row, Table, wants_vectors
from keras_quasiattn.lab.comparison.plan import Job, Plan, Point
from keras_quasiattn.lab.comparison.records import Record, read_records
from keras_quasiattn.lab.training.progress import Progress

_SPLITS = ("train", "validation", "test")


def train_tables(
    tables: Sequence[Table],
    runs: str | Path,
    *,
    data_dir: str | Path = "data",
    vectors: str | Path | None = None,
    processes: int | None = None,
    progress: bool = True,
    command: Sequence[str] = (),
) -> dict[str, str]:
    """Train and measure the runs that are missing from the records of some tables, several at once.

    Recorded runs are not trained again, and interrupted runs continue where they stopped. Each
    record is appended when its run ends.
    """
    runs = Path(runs)
    for table in tables:
        if table.split not in _SPLITS:
            raise UserError(
                f"table {table.name!r} is measured on {table.split!r}, which is not a split of "
                "data: show it with --show"
            )
        if vectors is None and any(row.model and wants_vectors(row) for row in table.rows):
            raise UserError(f"the models of table {table.name!r} read words: add --vectors FILE")
    records = {file: read_records(file) for file in {table.records for table in tables}}
    processes = processes or usual_processes()

    def path_of(row: Row, point: Point, seed: int) -> Path:
        return runs / row.with_settings(point).run(seed)

    chosen = None if vectors is None else str(vectors)
    like = Job(items=runs / "items", data_dir=Path(data_dir), command=tuple(command))
    plans = [
        Plan(
            table,
            records[table.records],
            path_of,
            chosen,
            dataclasses.replace(like, policy=table.policy),
        )
        for table in tables
    ]

    times = _times(records)
    with Progress(progress) as shown:
        runs.mkdir(parents=True, exist_ok=True)
        Engine(
            plans,
            lambda row: times.get((row.task, row.preset, row.model)),
            processes=processes,
            log=runs / "processes.log",
            shown=shown,
        ).run()
    return {run.path.name: why for plan in plans for run, why in plan.failed.items()}


def _times(records: Mapping[Path, Sequence[Record]]) -> dict[tuple[str, str, str], float]:
    """Return the median time of recorded runs of a model on some data, in seconds."""
    found: dict[tuple[str, str, str], list[float]] = {}
    for rows in records.values():
        for row in rows:
            if "seconds" in row:
                key = row["task"], row["preset"], row["model"]
                found.setdefault(key, []).append(row["seconds"])
    return {key: statistics.median(seconds) for key, seconds in found.items()}
