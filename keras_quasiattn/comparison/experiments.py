"""Sets of runs as data: the TOML files that `quasiattn compare` runs and shows."""

import dataclasses
import itertools
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_quasiattn import tasks
from keras_quasiattn.comparison.records import VECTORS, Key, key_of_options, reads_words
from keras_quasiattn.errors import UserError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@dataclasses.dataclass(frozen=True)
class Row:
    """A model on a data set, trained with several seeds.

    Args:
        name: what the table calls it.
        task: the task's name.
        preset: the data set.
        model: the model; empty for a row that a paper only prints.
        settings: options that differ from the preset's, by dotted name.
        paper: what the paper prints.
        against: the name of the row, on the same data, that this one is compared with.
    """

    name: str
    task: str
    preset: str
    model: str
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    paper: str = ""
    against: str = ""

    def key(self, split: str) -> Key:
        """What the records of the row's runs have in common.

        Raises:
            UserError: the row has no model, or an option does not suit it.
        """
        preset = tasks.describe(self.task).presets[self.preset].for_model(self.model)
        options = preset.with_overrides(self.settings).options()
        return key_of_options(self.task, self.preset, self.model, split, options)

    def run(self, seed: int) -> str:
        """Name of the run folder; the same in every table that has the row."""
        # A setting may be a path.
        words = [self.preset, self.model, *map(str, self.settings.values()), f"seed{seed}"]
        return "-".join(words).replace("/", "-")

    def with_settings(self, settings: Mapping[str, Any]) -> "Row":
        """The row with further options."""
        return dataclasses.replace(self, settings={**self.settings, **settings})


@dataclasses.dataclass(frozen=True)
class Table:
    """Rows that are shown together, and how they are trained and measured.

    Args:
        name: its name in the file.
        title: its heading.
        rows: the rows.
        records: the file of results.
        figures: what is shown: figures of a record by heading, each with its divisor.
        grid: values of options by dotted name. Every row is trained with seed 0 at each combination,
            and measured on the validation split; all seeds of a row then have its best combination.
        choose: the figure that chooses from the grid.
        seeds: number of seeds.
        split: what the figures are measured on.
        limit: number of examples to measure on; None for all.
        paper: what the papers' figures are.
        note: what to know before comparing.
    """

    name: str
    title: str
    rows: Sequence[Row]
    records: Path
    figures: Mapping[str, tuple[str, float]]
    grid: Mapping[str, Sequence[Any]] = dataclasses.field(default_factory=dict)
    choose: str = ""
    seeds: int = 3
    split: str = "test"
    limit: int | None = None
    paper: str = ""
    note: str = ""

    def points(self) -> list[dict[str, Any]]:
        """The combinations of the grid; one empty combination if there is no grid."""
        return [
            dict(zip(self.grid, values, strict=True))
            for values in itertools.product(*self.grid.values())
        ]


_TABLE = {
    *("name", "title", "task", "presets", "records", "figures", "set", "grid", "choose", "seeds"),
    *("split", "limit", "paper", "note", "rows", "attentions", "attention_options", "model"),
    *("against",),
}
_ROW = {"name", "preset", "model", "set", "paper", "against"}


def read_experiments(file: str | Path) -> list[Table]:
    """Read the tables of a TOML file.

    Keys before the first `[[table]]` are defaults of all tables. A table has:

    - `name`, `title`, `note`, `paper` (what the paper's figures are);
    - `task`, `presets` (every row without a `preset` is run on each), `set` (options of all rows);
    - `rows`, each with `model`, and optionally `name`, `preset`, `set`, `against`, and `paper`, text
      or text by preset. A row without `model` shows only what the paper prints;
    - or `model`, `attentions` and `attention_options`: a row for each attention;
    - `grid`, `choose`, `seeds`, `split`, `limit`, `records`, as in `Table`; `records` is relative to
      the file;
    - `figures`: the figures to show, by heading the figure's name, or its name and divisor.

    Raises:
        UserError: the file cannot be read or is not TOML, or a key, task, preset, model, attention
            or option is unknown or missing; the message names the file and the table.
    """
    file = Path(file)
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"cannot read {file}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{file} is not TOML: {error}") from None
    listed = content.pop("table", None)
    if not isinstance(listed, list) or not all(isinstance(one, dict) for one in listed):
        raise UserError(f"{file} has no table: begin each with [[table]]")
    return [_table(file, {**content, **one}) for one in listed]


def _table(file: Path, given: Mapping[str, Any]) -> Table:
    where = f"{file}, table {given.get('name', '?')!r}"
    _known(where, given, _TABLE)
    for name in ("name", "task", "records", "figures"):
        if name not in given:
            raise UserError(f"{where} has no {name!r}")
    try:
        rows = list(_rows(where, given))
    except UserError as error:
        raise UserError(f"{where}: {error}") from None
    figures = {
        heading: (one, 1.0) if isinstance(one, str) else (str(one[0]), float(one[1]))
        for heading, one in given["figures"].items()
    }
    return Table(
        name=given["name"],
        title=given.get("title", given["name"]),
        rows=rows,
        records=file.parent / given["records"],
        figures=figures,
        grid=given.get("grid", {}),
        choose=given.get("choose") or next(iter(figures.values()))[0],
        seeds=given.get("seeds", 3),
        split=given.get("split", "test"),
        limit=given.get("limit"),
        paper=given.get("paper", ""),
        note=given.get("note", ""),
    )


def _rows(where: str, given: Mapping[str, Any]) -> Iterator[Row]:
    listed = [*given.get("rows", []), *_of_attentions(given)]
    for one in listed:
        _known(f"{where}, row {one.get('name', one.get('model', '?'))!r}", one, _ROW)
        printed = one.get("paper", "")
        for preset in [one["preset"]] if "preset" in one else given.get("presets", [""]):
            row = Row(
                name=one.get("name") or _name(one),
                task=given["task"],
                preset=preset,
                model=one.get("model", ""),
                settings={**given.get("set", {}), **one.get("set", {})} if "model" in one else {},
                paper=printed if isinstance(printed, str) else printed.get(preset, ""),
                against=one.get("against", given.get("against", "")),
            )
            if row.model:
                task = tasks.describe(row.task)
                for kind, name, known in (
                    ("preset", row.preset, task.presets),
                    ("model", row.model, task.models),
                ):
                    if name not in known:
                        raise UserError.unknown(f"{kind} of task {row.task}", name, known)
                # The options of the grid have to be known, too.
                first = {name: values[0] for name, values in given.get("grid", {}).items()}
                row.with_settings(first).key("test")
            yield row


def _of_attentions(given: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A row for each attention of the table."""
    options = given.get("attention_options", {})
    for attention in given.get("attentions", []):
        chosen = {"model.attention": attention}
        if attention in options:
            chosen["model.attention_options"] = options[attention]
        yield {"name": attention, "model": given["model"], "set": chosen}


def _name(row: Mapping[str, Any]) -> str:
    settings = [f"{name.split('.', 1)[1]}={value}" for name, value in row.get("set", {}).items()]
    return ", ".join([row["model"], *settings])


def _known(where: str, given: Mapping[str, Any], known: set[str]) -> None:
    for name in given:
        if name not in known:
            raise UserError(f"{where}: {UserError.unknown('key', name, known)}")


def wants_vectors(row: Row) -> bool:
    """Whether the row's runs start with word vectors, if there is a file of them."""
    return reads_words(row.model) and VECTORS not in row.settings
