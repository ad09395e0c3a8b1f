"""Format tables of results for a terminal and as Markdown."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from keras_quasiattn.lab.comparison.experiments import Table
from keras_quasiattn.lab.comparison.outcomes import BASELINES, ENOUGH, Line, Recorded, grid, outcome

FEW: Final = "\\* fewer than three seeds, which rank nothing."


def markdown(table: Table, lines: Sequence[Line]) -> str:
    """Return the table in Markdown, without title and note."""
    cells = _cells(table, lines)
    rows = [cells[0], ["---"] * len(cells[0]), *cells[1:]]
    text = "\n".join(
        f"| {' | '.join(cell.replace('|', '&#124;') for cell in row)} |" for row in rows
    )
    return text + (f"\n\n{FEW}" if few(lines) else "")


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
            *_chosen(table, recorded),
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


def _chosen(table: Table, recorded: Recorded) -> Iterator[str]:
    """Return the validation metrics of the grid, if there is one, with the choices marked."""
    if not table.grid:
        return
    yield f"chosen by {table.choose} of validation data:"
    digits = table.figure_called(table.choose).digits
    rows = []
    for line in outcome(table, recorded):
        if not line.row.model:
            continue
        for point, spread in grid(table, line.row, recorded):
            mark = "chosen" if point == line.settings else ""
            value = "not run" if spread is None else spread.text(digits)
            seeds = "" if spread is None else str(spread.seeds)
            rows.append([f"  {line.row.name}", line.row.preset, _words(point), value, seeds, mark])
    yield aligned(rows)


def _words(point: Mapping[str, Any]) -> str:
    return ", ".join(f"{name.split('.', 1)[1]}={value}" for name, value in point.items())


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Return rows of cells as lines with aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )
