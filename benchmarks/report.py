"""A table and a plot of measured rows."""

from pathlib import Path
from typing import Any


def table(rows: list[dict[str, Any]]) -> str:
    """Return rows as aligned columns; a cell is empty where a row has no such key."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    found = [[row.get(name, "") for name in columns] for row in rows]
    cells = [[f"{x:.4g}" if isinstance(x, float) else str(x) for x in line] for line in found]
    widths = [max(len(line[i]) for line in [columns, *cells]) for i in range(len(columns))]
    return "\n".join(
        "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True))
        for line in [columns, *cells]
    )


def plot(rows: list[dict[str, Any]], path: Path) -> None:
    """Plot the time of both passes per head against length.

    One panel per head size, one line per case and mode.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    sizes = sorted({row["features"] for row in rows})
    figure, panels = pyplot.subplots(
        1, len(sizes), figsize=(6 * len(sizes), 5), squeeze=False, sharey=True
    )
    for axes, features in zip(panels[0], sizes, strict=True):
        here = [row for row in rows if row["features"] == features and row["passes"] == "both"]
        for case, mode in sorted({(row["case"], row["mode"]) for row in here}):
            line = [row for row in here if (row["case"], row["mode"]) == (case, mode)]
            line.sort(key=lambda row: row["length"])
            times = [row["ms"] / row["heads"] for row in line]
            axes.loglog([row["length"] for row in line], times, "o-", label=f"{case}, {mode}")
        lengths = sorted({row["length"] for row in here})
        axes.set_xticks(lengths, [str(length) for length in lengths], minor=False)
        axes.set_xticks([], minor=True)
        axes.set(
            xlabel="T = S", ylabel="forward and backward, ms a head", title=f"heads of {features}"
        )
    panels[0][0].legend(fontsize="small")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
