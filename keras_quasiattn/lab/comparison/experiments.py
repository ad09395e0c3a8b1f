"""Experiments: TOML files of tables, and the runs that a table needs, in their order."""

import dataclasses
import hashlib
import itertools
import json
import math
import shlex
import statistics
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from keras_quasiattn.errors import FileError, UserError
from keras_quasiattn.files import read_json_lines
from keras_quasiattn.lab import tasks
from keras_quasiattn.lab.tasks.attention_options import with_todays_names
from keras_quasiattn.lab.tasks.catalogue import chosen_options
from keras_quasiattn.lab.tasks.preset import Preset
from keras_quasiattn.lab.training.config import POLICIES, part_name

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


Record = Mapping[str, Any]
# Task, preset, model, split, and the options that differ from the preset's; equal for a row and its
# runs.
Key = tuple[str, str, str, str, frozenset[str]]
VECTORS = "data.vectors"
WITHOUT_VECTORS = "without word vectors"
_USUAL_POLICY: Final = "float32"
_LONGEST = 120  # characters of a folder's name, before the seed
_LESS_IS_BETTER: Final = frozenset(
    {"attention_flops", "cross_entropy", "density", "expected_calibration_error", "loss"}
    | {"parameters", "perplexity", "seconds", "word_perplexity"}
)
# The keys of tables and rows, and their types.
_TABLE: Final[Mapping[str, type]] = {
    **dict.fromkeys(("name", "title", "task", "records", "choose", "split", "policy"), str),
    **dict.fromkeys(("model", "against", "paper", "note"), str),
    **dict.fromkeys(("figures", "set", "grid", "attention_options", "data"), dict),
    **dict.fromkeys(("presets", "rows", "attentions"), list),
    **dict.fromkeys(("seeds", "limit"), int),
}
_ROW: Final[Mapping[str, type | tuple[type, ...]]] = {
    **dict.fromkeys(("name", "preset", "model", "against"), str),
    "set": dict,
    "paper": (str, dict),
}
_KINDS: Final = {str: "text", dict: "a table", list: "a list", int: "a positive integer"}
_OF_TEXTS: Final = {"presets", "attentions", "data", "paper"}
_AS_GIVEN: Final = {"title", "data", "seeds", "split", "limit", "paper", "note"}
Point = Mapping[str, Any]


def usual_options(task: str, preset: str, model: str) -> Preset:
    """Return what a preset of a task gives to a model."""
    return tasks.describe(task).presets[preset].for_model(model)


def key_of_options(
    task: str, preset: str, model: str, split: str, options: Mapping[str, Any]
) -> Key:
    """Return the key of runs with these options by dotted name, without the vectors' path."""
    usual = usual_options(task, preset, model)
    if options.get(VECTORS):  # may change other options of a preset
        usual = usual.with_overrides({VECTORS: options[VECTORS]})
    known = usual.options()
    changed = {
        f"{name}={value if isinstance(value, str) else json.dumps(value, sort_keys=True)}"
        for name, value in options.items()
        if name != VECTORS and (name not in known or known[name] != value)
    }
    return task, preset, model, split, frozenset(changed)


def key_of(record: Record) -> Key:
    """Return the key of the row that a record belongs to.

    Records store all their options, so a run made before a preset changed keeps its row.
    """
    place = (record["task"], record["preset"], record["model"])
    key = key_of_options(*place, record["split"], record["options"])
    notes = set()
    if shlex.split(record["command"])[1:2] == ["tune"]:
        notes.add("the best of `quasiattn tune`")
    # Rows have word vectors where a model takes some; runs without form separate rows.
    if usual_options(*place).takes_vectors and not record["options"].get(VECTORS):
        notes.add(WITHOUT_VECTORS)
    return (*key[:4], key[4] | notes | _of_policy(record.get("policy", _USUAL_POLICY)))


def _of_policy(policy: str) -> set[str]:
    """Return what a precision adds to a key; earlier records without one are of the usual."""
    return set() if policy == _USUAL_POLICY else {f"policy={policy}"}


def read_records(file: Path) -> Sequence[Record]:
    """Return the records of a results file; none if the file does not exist."""
    rows = read_json_lines(file)
    for row in rows:
        if isinstance(row.get("options"), dict):
            row["options"] = with_todays_names(row["options"])
    return rows


def figures_in(record: Record) -> list[str]:
    """Return the names of the metrics in a record."""
    return [name for name, value in record.items() if type(value) is float]


def by_key(records: Iterable[Record]) -> dict[Key, dict[int, Record]]:
    """Return the runs of every row by seed; for two runs with the same seed, the later one."""
    found: dict[Key, dict[int, Record]] = {}
    for record in records:
        found.setdefault(key_of(record), {})[record["seed"]] = record
    return found


def is_number(value: Any) -> bool:
    """Return whether a value of a record is a metric, not a text or metrics by class."""
    return type(value) in (int, float)


class Figure(NamedTuple):
    """A metric of a record, and how to display it."""

    name: str
    divisor: float = 1.0
    digits: int = 4

    @property
    def sign(self) -> int:
        """1 if larger values are better, −1 if smaller ones are."""
        return -1 if self.name in _LESS_IS_BETTER else 1


@dataclasses.dataclass(frozen=True)
class Row:
    """A model on a data set, trained with several seeds."""

    name: str
    task: str
    preset: str
    model: str  # empty if the row only shows a paper's results
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    paper: str = ""
    against: str = ""  # name of the row on the same data with which it is compared
    policy: str = _USUAL_POLICY  # precision of the trainings

    def key(self, split: str) -> Key:
        """Return the key that the records of the row's runs share."""
        usual = usual_options(self.task, self.preset, self.model)
        # If a row does not mention word vectors, its model starts with some if it takes them, whose
        # file the key leaves out.
        vectors = {VECTORS: "some"} if self.wants_vectors else {}
        options = usual.with_overrides({**vectors, **self.settings}).options()
        key = key_of_options(self.task, self.preset, self.model, split, options)
        notes = _of_policy(self.policy)
        if usual.takes_vectors and self.settings.get(VECTORS) == "":
            notes.add(WITHOUT_VECTORS)
        return (*key[:4], key[4] | notes)

    @property
    def wants_vectors(self) -> bool:
        """Whether the row's runs start with word vectors if a file of them is given."""
        if VECTORS in self.settings:
            return False
        return usual_options(self.task, self.preset, self.model).takes_vectors

    def run(self, seed: int) -> str:
        """Return the name of the run folder, the same in every table with this row."""
        options = (f"{name.partition('.')[2]}={value}" for name, value in self.settings.items())
        # An option may be a path.
        parts = [self.preset, self.model, *options, *_of_policy(self.policy)]
        name = "-".join(parts).replace("/", "-")
        if len(name) > _LONGEST:
            digest = hashlib.sha256(name.encode()).hexdigest()[:8]
            name = f"{name[:_LONGEST]}-{digest}"
        return f"{name}-seed{seed}"

    def with_settings(self, settings: Mapping[str, Any]) -> "Row":
        """Return the row with further options."""
        return dataclasses.replace(self, settings={**self.settings, **settings})


@dataclasses.dataclass(frozen=True)
class Table:
    """Rows that are shown together, and how to train and measure them."""

    name: str
    title: str
    rows: Sequence[Row]
    records: Path
    figures: Mapping[str, Figure]  # by heading; differences and verdicts refer to the first
    # By option. All seeds of a row are trained at the combination whose first seed was best on
    # validation data, by the metric `choose`.
    grid: Mapping[str, Sequence[Any]] = dataclasses.field(default_factory=dict)
    choose: str = ""
    data: Mapping[str, str] = dataclasses.field(default_factory=dict)  # display names, by preset
    seeds: int = 3
    first_seed: int = 0
    split: str = "test"
    limit: int | None = None
    paper: str = ""
    note: str = ""

    def chosen(
        self,
        row: Row,
        found: Mapping[Key, Mapping[int, Record]],
        failed: Collection[Mapping[str, Any]] = (),
    ) -> dict[str, Any] | None:
        """Return the combination with the best mean over a row's validation runs; {} without grid.

        Only seeds that all combinations have count: further ones, which a table of validation data
        has at the chosen combination, must not change the choice. The first combination wins ties.
        `failed` are combinations whose runs failed; if all did, the first is returned. None means
        that a combination has no run yet.

        Raises:
            UserError: the runs of a combination do not have the metric `choose`.
        """
        points = [point for point in self.points() if point not in failed] or self.points()[:1]
        if len(points) == 1:
            return points[0]
        figures = []  # of each combination, by seed
        for point in points:
            runs = self.runs_of(row.with_settings(point), "validation", found)
            if runs and not any(is_number(run.get(self.choose)) for run in runs.values()):
                known = {name for run in runs.values() for name in figures_in(run)}
                wrong = UserError.unknown("figure", self.choose, known)
                raise UserError(f"table {self.name!r}, `choose`: {wrong}")
            figures.append(
                {
                    seed: run[self.choose]
                    for seed, run in runs.items()
                    if is_number(run.get(self.choose))
                }
            )
        shared = set.intersection(*map(set, figures))
        if not shared:
            return None
        means = []
        for by_seed in figures:
            mean = Figure(self.choose).sign * statistics.fmean(by_seed[seed] for seed in shared)
            means.append(mean if math.isfinite(mean) else -math.inf)  # training diverged
        return points[means.index(max(means))]

    def runs_of(
        self, row: Row, split: str, found: Mapping[Key, Mapping[int, Record]]
    ) -> dict[int, Record]:
        """Return the records of a row by seed, on a split or on its first `limit` examples."""
        return dict(found.get(row.key(part_name(split, self.limit)), {}))

    @property
    def main(self) -> Figure:
        """The first metric, to which differences and verdicts refer."""
        return next(iter(self.figures.values()))

    def points(self) -> list[dict[str, Any]]:
        """Return the combinations of the grid, or one empty combination without a grid."""
        return _points(self.grid)


def _points(grid: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]


def read_experiments(file: str | Path) -> list[Table]:
    """Read the tables of a TOML file.

    Keys before the first `[[table]]` are defaults for all tables. A table has:

    - `name`, `title`, `note`, `paper` (a description of the paper's results);
    - `task`, `presets` (a row without a `preset` runs on each), `set` (options of all rows);
    - `rows`, each with `model`, and optionally `name`, `preset`, `set`, `against`, and `paper`
      (text, or text by preset). A row without `model` only shows the paper's results;
    - or `model`, `attentions` and `attention_options`, for one row per attention;
    - `grid`, `choose`, `seeds`, `split`, `limit`, `records` (relative to the file) as in `Table`,
      and the `policy` of its rows;
    - `figures`: the metrics to show: for each heading, the name of a metric, or a list of name,
      divisor and number of decimals;
    - `data`: display names of the data, by preset.
    """
    file = Path(file)
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise FileError(f"cannot read {file}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{file} is not TOML: {error}") from None
    listed = content.pop("table", None)
    if not isinstance(listed, list) or not all(isinstance(one, dict) for one in listed):
        raise UserError(f"{file} has no table: begin each with [[table]]")
    tables = [_table(file, {**content, **one}) for one in listed]
    names = [table.name for table in tables]
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"{file} has more than one table {name!r}")
    return tables


def _table(file: Path, given: Mapping[str, Any]) -> Table:
    where = f"{file}, table {given.get('name', '?')!r}"
    _check(where, given, _TABLE)
    for name in ("name", "task", "records", "figures"):
        if not given.get(name):
            raise UserError(f"{where} has no {name!r}")
    if (policy := given.get("policy", _USUAL_POLICY)) not in POLICIES:
        raise UserError(f"{where}: {UserError.unknown('precision policy', policy, POLICIES)}")
    grid = _dotted(given.get("grid", {}))
    for name, values in grid.items():
        if not isinstance(values, list) or not values:
            raise UserError(f"{where}: grid of {name} is {values!r}: it must be a list of values")
    figures = {heading: _figure(where, one) for heading, one in given["figures"].items()}
    try:
        rows = list(_rows(where, given, _points(grid)))
    except UserError as error:
        raise UserError(f"{where}: {error}".replace(f"{where}: {where}", where)) from None
    if not rows:
        raise UserError(f"{where} has no row")
    for row in rows:
        if row.against and not any(
            other.model and (other.name, other.preset) == (row.against, row.preset)
            for other in rows
        ):
            raise UserError(f"{where}: no row {row.against!r} on {row.preset!r} to compare with")
    return Table(
        name=given["name"],
        rows=rows,
        records=file.parent / given["records"],
        figures=figures,
        grid=grid,
        choose=given.get("choose") or next(iter(figures.values())).name,
        **{"title": given["name"], **{name: given[name] for name in _AS_GIVEN & given.keys()}},
    )


def _figure(where: str, given: Any) -> Figure:
    parts = [given] if isinstance(given, str) else given
    if (
        not isinstance(parts, list)
        or not [str] == [type(one) for one in parts[:1]]
        or not all(type(one) in (int, float) and 0 < one < math.inf for one in parts[1:2])
        or not all(type(one) is int and one >= 0 for one in parts[2:])
        or len(parts) > 3
    ):
        raise UserError(
            f"{where}: figure {given!r}: it must be a name, or a list of a name, a divisor and a "
            "number of decimals"
        )
    return Figure(*parts)


def _rows(where: str, given: Mapping[str, Any], points: Sequence[Point]) -> Iterator[Row]:
    """Return a table's rows, with options that are right at all `points` of its grid."""
    listed = [*given.get("rows", []), *_of_attentions(given)]
    for one in listed:
        if not isinstance(one, dict) or not (one.get("name") or one.get("model")):
            raise UserError(f"row {one!r}: it must be a table with a `name` or a `model`")
        _check(f"{where}, row {one.get('name') or one['model']!r}", one, _ROW)
        printed = one.get("paper", "")
        for preset in [one["preset"]] if "preset" in one else given.get("presets", [""]):
            own = _dotted(one.get("set", {}))
            set_here = (f"{option.split('.', 1)[1]}={value}" for option, value in own.items())
            name = one.get("name") or ", ".join([one["model"], *set_here])
            against = one.get("against", given.get("against"))
            changed = {**_dotted(given.get("set", {})), **own}
            row = Row(
                name=name,
                task=given["task"],
                preset=preset,
                model=one.get("model", ""),
                settings=changed if one.get("model") else {},
                paper=printed if isinstance(printed, str) else printed.get(preset, ""),
                against=against if against and against != name and one.get("model") else "",
                policy=given.get("policy", _USUAL_POLICY),
            )
            if row.model:
                task, names = tasks.describe(row.task), {"preset": preset, "model": row.model}
                chosen_options(row.task, task, **names, seed=0, overrides={})
                for point in points:
                    row.with_settings(point).key("test")
            yield row


def _dotted(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options by dotted name, from keys such as `model.units` or from nested tables."""
    dotted: dict[str, Any] = {}
    for name, value in options.items():
        if isinstance(value, dict) and "." not in name:
            dotted |= {f"{name}.{key}": one for key, one in _dotted(value).items()}
        else:
            dotted[name] = value
    return dotted


def _of_attentions(given: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Return one row per attention of the table."""
    if given.get("attentions") and "model" not in given:
        raise UserError("`attentions` need a `model`")
    options = given.get("attention_options", {})
    for attention in given.get("attentions", []):
        chosen = {"model.attention": attention}
        if attention in options:
            chosen["model.attention_options"] = options[attention]
        yield {"name": attention, "model": given["model"], "set": chosen}


def _check(where: str, given: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    for name, value in given.items():
        if name not in known:
            raise UserError(f"{where}: {UserError.unknown('key', name, known)}")
        kinds = known[name] if isinstance(known[name], tuple) else (known[name],)
        if type(value) not in kinds or (type(value) is int and value < 1):
            kind = " or ".join(_KINDS[one] for one in kinds)
            raise UserError(f"{where}: {name!r} is {value!r}: it must be {kind}")
        listed = value.values() if isinstance(value, dict) else value
        if name in _OF_TEXTS and not all(isinstance(one, str) for one in listed):
            raise UserError(f"{where}: {name!r} is {value!r}: each of its values must be text")


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

    def next(self, busy: Collection[Path] = ()) -> Job | None:
        """Return a missing run whose options are known and whose folder is not busy, or None."""
        missing = filter(self._is_missing, self._runs())
        run = next((one for one in missing if one.path not in busy), None)
        if run is not None:
            self._begun.add(run)
        return run

    def done(self, run: Job, record: Record | str) -> None:
        """Store a run's record, or its error."""
        if isinstance(record, str):
            self.failed[run] = record
        else:
            key = run.row.key(part_name(run.split, run.limit))
            self._found.setdefault(key, {})[run.seed] = record

    def chosen(self, row: Row) -> Point | None:
        """Return the best combination of the grid for a row; None while a run is missing."""
        seed = self.table.first_seed
        failed = [
            point
            for point in self.table.points()
            if self._run(row, point, seed, "validation") in self.failed
        ]
        return self.table.chosen(self._with(row, {}), self._found, failed)

    def records(self, row: Row) -> dict[int, Record]:
        """Return the records of a row at its best combination by seed; empty while unknown."""
        point = self.chosen(row)
        if point is None:
            return {}
        found = self.table.runs_of(self._with(row, point), self.table.split, self._found)
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
        recorded = self.table.runs_of(run.row, run.split, self._found)
        return run.seed not in recorded and run not in self._begun and run not in self.failed
