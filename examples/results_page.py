"""Writes the results page: each row of the papers' tables with the paper's figure and ours.

    python examples/results_page.py                     # docs/results.md from results/*.jsonl
    python examples/results_page.py --output page.md

Beside the page, in the folder `images`, it draws a chart of the differences to softmax attention;
for that it needs Matplotlib (`pip install 'keras-quasiattn[report]'`).

A row without a figure of ours says why. Every figure of ours comes from a row that
`quasiattn evaluate RUN --record FILE` wrote.
"""

import argparse
import shlex
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

import own_data
import results_chart
from paper_tables import (
    DATA,
    NOT_RUN,
    SCRIPTS,
    UNAVAILABLE,
    Entry,
    PaperTable,
    paper_tables,
    unclaimed,
)
from tables import Key, Record, Row, by_key, key_of, read_records

ROOT = Path(__file__).resolve().parents[1]
# By task, the heading of each figure on the page: its name in a result row, its divisor and the
# number of decimals.
FIGURES: Mapping[str, Mapping[str, tuple[str, float, int]]] = {
    "classify": {
        "accuracy": ("accuracy", 1, 4),
        "density": ("density", 1, 3),
        "MFLOPs": ("attention_flops", 1e6, 1),
    },
    "mlu": {"exact answers": ("sequence_accuracy", 1, 4)},
    "pairs": {"accuracy": ("accuracy", 1, 4), "cross-entropy": ("cross_entropy", 1, 3)},
    "programs": {
        "exact programs": ("sequence_accuracy", 1, 4),
        "passing their tests": ("program_accuracy", 1, 4),
    },
    "rank": {"MAP": ("map", 1, 4), "MRR": ("mrr", 1, 4), "recall at 1": ("recall_at_1", 1, 4)},
    "read": {
        "exact match": ("exact_match", 1, 4),
        "F1": ("f1", 1, 4),
        "million weights": ("parameters", 1e6, 2),
    },
    "translate": {
        "BLEU": ("bleu", 1, 2),
        "BLEU on tokens": ("bleu_tokens", 1, 2),
        "word perplexity": ("word_perplexity", 1, 2),
    },
}
TASKS_WITH_VECTORS = ("classify", "pairs", "rank", "read")

HEAD = """# Results

Written by `python examples/results_page.py` from the rows in `results/*.jsonl`, which runs wrote \
with `quasiattn
evaluate RUN --record FILE`. Only the papers' own figures are typed by hand. The pages in \
`results/` say what else was
tried and discuss the figures.

- **ours** is the mean over the seeds, ± the standard deviation where there are two or more. One \
seed ranks nothing.
- **paper** is what the paper prints, as shares of 1 where it prints percent.
- **steps** is the budget: updates until training ended, which for many runs is when the \
validation figure had stopped
  rising.
- Figures are of the test data unless a row says otherwise.
- Commands are those of the lowest seed; the other seeds differ only in `--seed` and `--run`, or \
have their own.
  They set the options in which the preset has changed since. A row that was not run has the \
command that would
  run it; for models that use word vectors, add \
`--vectors FILE`.
"""


def all_records(folder: Path) -> list[Record]:
    """The rows of all results files but those that have no rows of a paper's table.

    `tried.jsonl` has settings that were dropped; the others have comparisons of their own.
    """
    names = ("kinds", "mechanisms", "own_data", "parts", "transfer", "tried")
    apart = {f"{name}.jsonl" for name in names}
    files = sorted(file for file in folder.glob("*.jsonl") if file.name not in apart)
    return [record for file in files for record in read_records(file)]


def page(records: Sequence[Record]) -> str:
    """The whole page as Markdown."""
    runs = _runs(records)
    tables = paper_tables()
    beyond = list(unclaimed(tables))
    parts = [HEAD]
    compared = differences(records)
    if compared:
        parts.append(results_chart.section(compared))
    parts += [_section(table, runs) for table in tables]
    if beyond:
        parts += [
            "## Beyond the papers' tables\n",
            *(_section(table, runs, "###") for table in beyond),
        ]
    known = {e.row.key(table.task) for table in [*tables, *beyond] for e in table.entries if e.row}
    others = {key: found for key, found in runs.items() if key not in known}
    if others:
        parts.append(_others(others))
    return "\n".join(parts)


def _runs(records: Sequence[Record]) -> dict[Key, list[Record]]:
    return {key: [seeds[seed] for seed in sorted(seeds)] for key, seeds in by_key(records).items()}


def differences(records: Sequence[Record]) -> list[results_chart.Difference]:
    """The rows of the chart."""
    tables = paper_tables()
    return results_chart.differences([*tables, *unclaimed(tables)], _runs(records))


def whole_page(folder: Path) -> str:
    """The page of all results in a folder, one's own data last."""
    own = read_records(folder / "own_data.jsonl")
    return page(all_records(folder)) + (own_data.section(own) if own else "")


def _section(table: PaperTable, runs: Mapping[Key, list[Record]], level: str = "##") -> str:
    figures = FIGURES.get(table.task, {})
    # A figure gets a column only if a run of this table has it.
    shown = {
        name: figure
        for name, figure in figures.items()
        if any(figure[0] in record for e in table.entries for record in _found(table, e, runs))
    }
    paper = [f"paper: {table.paper_figures}"] if table.paper_figures else []
    columns = ["data", "model", *paper, *shown, "seeds", "steps", "remark"]
    lines = [_line(columns), _line(["---"] * len(columns))]
    commands = []
    for entry in table.entries:
        found = _found(table, entry, runs)
        cells = [_spread(found, *figure) for figure in shown.values()]
        seeds = str(len(found)) if found else ""
        printed = ", ".join(entry.paper.split()) if entry.row else entry.paper
        remark = _remark(table, entry, found)
        names = [entry.data, entry.model, *([printed] if paper else [])]
        lines.append(_line([*names, *cells, seeds, _steps(found), remark]))
        if entry.row is not None:
            commands += _distinct(found) or [_command(table.task, entry.row)]
    parts = [f"{level} {table.title}\n"]
    if table.note:
        parts.append(f"{table.note}\n")
    parts.append("\n".join(lines) + "\n")
    if commands:
        parts.append(_commands(table.task, commands))
    return "\n".join(parts)


def _found(table: PaperTable, entry: Entry, runs: Mapping[Key, list[Record]]) -> list[Record]:
    return [] if entry.row is None else runs.get(entry.row.key(table.task), [])


def _remark(table: PaperTable, entry: Entry, found: Sequence[Record]) -> str:
    if entry.row is None:
        return entry.reason
    split = "" if entry.row.split == "test" else f"{entry.row.split} data"
    reason = "" if found else UNAVAILABLE.get((table.task, entry.row.preset), NOT_RUN)
    notes = sorted({record.get("data", {}).get("note", "") for record in found} - {""})
    return "; ".join(part for part in (split, reason, *notes) if part)


def _distinct(found: Sequence[Record]) -> list[str]:
    """The command of the lowest seed, and of each seed whose command differs in other options."""
    first: dict[str, str] = {}
    for record in found:
        words = _words(record)
        kept = [
            word
            for before, word in zip(["", *words], words, strict=False)
            if not {word, before} & {"--seed", "--run"} and word != "--quiet"
        ]
        first.setdefault(shlex.join(kept), shlex.join(words))
    return list(first.values())


def _words(record: Record) -> list[str]:
    """The command that would repeat a record today: sets all options that the preset does not."""
    words = shlex.split(record["command"])
    if words[1] != "train":
        return words
    kept = [
        word
        for before, word in zip(["", *words], words, strict=False)
        if "--set" not in (word, before)
    ]
    changed = sorted(setting for setting in key_of(record)[-1] if "=" in setting)  # not the notes
    settings = [word for setting in changed for word in ("--set", setting)]
    place = kept.index("--run")
    return [*kept[:place], *settings, *kept[place:]]


def _command(task: str, row: Row) -> str:
    words = [
        "quasiattn",
        "train",
        task,
        "--preset",
        row.preset,
        "--model",
        row.model,
        "--seed",
        "0",
    ]
    for name, value in row.settings.items():
        words += ["--set", f"{name}={value}"]
    return shlex.join([*words, "--run", f"runs/tables/{row.run(0)}"])


def _commands(task: str, commands: Sequence[str]) -> str:
    script = ""
    if task in SCRIPTS:
        vectors = " --vectors FILE" if task in TASKS_WITH_VECTORS else ""
        script = f"`python examples/{SCRIPTS[task][0]} train{vectors}` runs what is missing."
    body = "\n".join(dict.fromkeys(commands))
    return "\n\n".join(
        part
        for part in (
            '<details markdown="1">\n<summary>Commands</summary>',
            script,
            f"```bash\n{body}\n```",
            "</details>\n",
        )
        if part
    )


def _others(others: Mapping[Key, list[Record]]) -> str:
    lines = [
        "## Other runs on record\n",
        "Runs with settings that no table has.\n",
        _line(["task", "data", "model", "settings", "split", "figures", "seeds", "steps"]),
        _line(["---"] * 8),
    ]
    for (task, preset, model, split, settings), found in sorted(
        others.items(), key=lambda one: str(one[0])
    ):
        figures = [
            f"{name} {_spread(found, *figure)}"
            for name, figure in FIGURES.get(task, {}).items()
            if figure[0] in found[0]
        ]
        data = DATA.get((task, preset), preset)
        cells = [task, data, model, ", ".join(sorted(settings)), split, "; ".join(figures)]
        lines.append(_line([*cells, str(len(found)), _steps(found)]))
    return "\n".join(lines) + "\n"


def _spread(found: Sequence[Record], name: str, unit: float, digits: int) -> str:
    values = [record[name] / unit for record in found if name in record]
    if not values:
        return ""
    deviation = f" ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.{digits}f}{deviation}"


def _steps(found: Sequence[Record]) -> str:
    steps = sorted({record["steps"] for record in found})
    if len(steps) > 1:
        return f"{steps[0]:,}–{steps[-1]:,}"
    return f"{steps[0]:,}" if steps else ""


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def main() -> None:
    """Read the arguments and write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--results", type=Path, default=ROOT / "results")
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "results.md")
    arguments = parser.parse_args()
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(whole_page(arguments.results), encoding="utf-8")
    compared = differences(all_records(arguments.results))
    if compared:
        results_chart.write(compared, arguments.output.parent / "images")
    print(arguments.output)


if __name__ == "__main__":
    main()
