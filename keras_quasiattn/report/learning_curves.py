"""Learning curves over several runs, with their range."""

import collections
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Curve = list[dict[str, Any]]


def curves_of(
    histories: Iterable[tuple[str, Sequence[Mapping[str, Any]]]], figure: str
) -> dict[str, Curve]:
    """The mean, smallest and largest value of each group of runs, at every step they all have.

    Args:
        histories: the name of its group, such as its model, and the history of each run.
        figure: name of the figure, such as "loss"; runs without it are left out.

    >>> histories = [("coda", [{"step": 5, "loss": 2.0}]), ("coda", [{"step": 5, "loss": 4.0}])]
    >>> curves_of(histories, "loss")
    {'coda': [{'step': 5, 'mean': 3.0, 'least': 2.0, 'largest': 4.0, 'runs': 2}]}
    """
    runs: dict[str, list[dict[int, float]]] = collections.defaultdict(list)
    for model, rows in histories:
        values = {row["step"]: row[figure] for row in rows if figure in row}
        if values:
            runs[model].append(values)
    found = {}
    for model, by_step in sorted(runs.items()):
        steps = sorted(set.intersection(*(set(one) for one in by_step)))
        found[model] = [
            {
                "step": step,
                "mean": statistics.mean(one[step] for one in by_step),
                "least": min(one[step] for one in by_step),
                "largest": max(one[step] for one in by_step),
                "runs": len(by_step),
            }
            for step in steps
        ]
    return {model: curve for model, curve in found.items() if curve}
