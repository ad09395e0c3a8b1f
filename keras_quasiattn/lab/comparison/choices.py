"""Choose the best combination of a table's grid for a row, by validation data."""

import math
import statistics
from collections.abc import Collection, Mapping
from typing import Any

from keras_quasiattn.lab.comparison.experiments import Figure, Row, Table
from keras_quasiattn.lab.comparison.records import Key, Record

Found = Mapping[Key, Mapping[int, Record]]


def chosen(
    table: Table, row: Row, found: Found, failed: Collection[Mapping[str, Any]] = ()
) -> dict[str, Any] | None:
    """Return the combination with the best mean over recorded validation runs; the first on ties.

    Args:
        table: the table.
        row: one of its rows, with a model.
        found: the recorded runs, by key and seed.
        failed: combinations to skip because their runs failed; if all failed, the first is
            returned.

    Returns:
        The values of the grid's options, empty without a grid; None while a combination has no run.
    """
    points = [point for point in table.points() if point not in failed] or table.points()[:1]
    if len(points) == 1:
        return points[0]
    means = []
    for point in points:
        runs = found.get(row.with_settings(point).key("validation"), {}).values()
        figures = [run[table.choose] for run in runs if table.choose in run]
        if not figures:
            return None
        mean = Figure(table.choose).sign * statistics.fmean(figures)
        means.append(mean if math.isfinite(mean) else -math.inf)  # training diverged
    return points[means.index(max(means))]
