"""Compare attentions on a task."""

import contextlib
import dataclasses
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from keras_quasiattn.attention.base import ATTENTIONS
from keras_quasiattn.errors import UserError
from keras_quasiattn.extras import MissingPackageError
from keras_quasiattn.files import begin, only_process, read_json, write, write_json
from keras_quasiattn.lab.comparison.compared import Comparison, Entry, side_by_side
from keras_quasiattn.lab.comparison.engine import (
    Engine,
    do,
    read_items,
    usual_processes,
    write_items,
)
from keras_quasiattn.lab.comparison.experiments import Figure, Job, Plan, Point, Row, Table
from keras_quasiattn.lab.comparison.tables import checked_records
from keras_quasiattn.lab.comparison.workers import Failed, Lost, run_jobs
from keras_quasiattn.lab.tasks import Task
from keras_quasiattn.lab.tasks.attention_options import BASELINE, models_with_attention
from keras_quasiattn.lab.training.checkpoints import judged_by
from keras_quasiattn.lab.training.progress import Progress

_ABOUT, _RECORDS, _COSTS, _SIMPLE = "compared.json", "comparison.jsonl", "costs.json", "simple.json"
_RATE = "training.learning_rate"


def compare_task(
    task: Task,
    folder: str | Path,
    attentions: Sequence[str],
    *,
    seeds: int = 3,
    rates: Sequence[float] = (),
    limit: int | None = None,
    policy: str = "float32",
    processes: int | None = None,
    progress: bool = True,
    command: Sequence[str] = (),
) -> Comparison:
    """Train a task's model with each attention and compare them.

    All attentions have the same options and candidate learning rates. Each is trained at every rate
    with the first seed, and then with all seeds at the best rate by validation data. After an
    interruption, the same call continues; with more seeds, rates or attentions it adds runs.

    The folder then holds `comparison.md`, `comparison.html`, `comparison.jsonl` (one record per
    run), `best` (a link to the run of the best attention with the best validation metric, the one
    that chose its checkpoint), `runs`, and `items` (the scores of the test items).
    """
    folder = Path(folder)
    for what, number in (("seeds", seeds), ("processes", processes)):
        if number is not None and number < 1:
            raise UserError(f"the number of {what} is {number}: it must be at least 1")
    for rate in rates:
        if not 0 < rate < float("inf"):
            raise UserError(f"--rates {rate}: a learning rate must be a number above 0")
    names = _checked(task, attentions)
    task.prepare()
    split = task.measured_split
    arguments = {"split": split, "limit": limit, "policy": policy, "data": task.describe_data()}
    begin(folder, _ABOUT, {"task": task.name, **task.config(), **arguments}, "comparison")
    usual, options = task.options.training.learning_rate, task.options.options()
    third, triple = float(f"{usual / 3:.1g}"), float(f"{usual * 3:.1g}")
    rates = list(dict.fromkeys(rates)) or [third, usual, triple]
    given = {
        name: {
            **options,
            "model.attention": name,
            "model.attention_options": dict(task.attention_defaults.get(name, {})),
        }
        for name in names
    }
    train = options.get("data.train")
    data = Path(str(train).split(",")[0]).name if train else task.preset
    table = Table(
        name=task.name,
        title=f"{task.name} on {data}, model {task.model}",
        rows=[
            Row(name, task.name, task.preset, task.model, given[name], policy=policy)
            for name in names
        ],
        records=folder / _RECORDS,
        figures={task.figure: Figure(task.figure)},
        grid={_RATE: rates},
        choose=task.figure,
        seeds=seeds,
        first_seed=task.seed,
        split=split,
        limit=limit,
    )
    with only_process(folder, "comparing"), Progress(progress) as shown:
        shown.say(*(task.remarks() if shown.shown else ()))
        work = _Work(task, table, folder, processes or usual_processes(), shown, command)
        work.measure_costs()
        work.train()
        comparison = work.outcome()
        work.write(comparison)
    return comparison


def _checked(task: Task, attentions: Sequence[str]) -> list[str]:
    """Return the attentions, softmax first."""
    options = task.options.options()
    if "model.attention" not in options:
        raise UserError(
            f"the model {task.model!r} of task {task.name} has one attention only: "
            f"compare one of {', '.join(models_with_attention(task)) or '(none)'}"
        )
    usual = task.presets[task.preset].for_model(task.model).options()
    for option in ("model.attention", "model.attention_options"):
        if options[option] != usual[option]:
            raise UserError(
                f"{option} is {options[option]!r}: a comparison sets it for each attention: leave "
                "it out, and name attentions with --attention, or describe the runs in a TOML file"
            )
    for name in attentions:
        UserError.check("attention", name, ATTENTIONS)
    return list(dict.fromkeys([BASELINE, *attentions]))


class _Work:
    """Do the jobs of a comparison in several processes."""

    def __init__(
        self,
        task: Task,
        table: Table,
        folder: Path,
        processes: int,
        shown: Progress,
        command: Sequence[str],
    ) -> None:
        self._task, self._table, self._folder = task, table, folder
        self._processes, self._shown = processes, shown
        self._costs: dict[str, dict[str, float]] = read_json(folder / _COSTS)
        self._simple: dict[str, Any] = read_json(folder / _SIMPLE)
        self._log = folder / "processes.log"
        self._like = Job(
            limit=table.limit,
            items=folder / "items",
            data_dir=task.data_dir,
            command=tuple(command),
            assets=_written_assets(task, folder / "assets"),
        )
        self._plan = Plan(table, checked_records(table.records), self._path, like=self._like)

    def _path(self, row: Row, point: Point, seed: int) -> Path:
        values = [row.name, *map(str, point.values()), f"seed{seed}"]
        return self._folder / "runs" / "-".join(values)

    def _job(self, kind: str, row: Row, **others: Any) -> Job:
        return dataclasses.replace(self._like, kind=kind, row=row, **others)

    def _do(self, jobs: Sequence[Job], done: Callable[[Job, Any], None], **others: Any) -> None:
        """Do the jobs, and call `done` with each and its result as soon as there is one."""
        waiting = list(jobs)

        def told(job: Job, result: Any) -> None:
            if isinstance(result, (Lost, Failed)):
                of = "" if job.kind == "baselines" else f" of {job.row.name}"
                self._shown.say(f"{job.kind}{of}: failed: {result}")
            done(job, result)

        if waiting:
            run_jobs(
                lambda: waiting.pop(0) if waiting else None,
                do,
                told,
                number=self._processes,  # each has the threads of a training, however few there are
                log=self._log,
                **others,
            )

    def measure_costs(self) -> None:
        """Measure the cost of each attention, and the simple baselines on the same examples."""
        rows = [row for row in self._plan.rows if row.name not in self._costs]
        jobs = [self._job("cost", row) for row in rows]
        if not self._simple:
            jobs.append(self._job("baselines", self._plan.rows[0], split=self._table.split))
        if jobs:
            self._shown.say(f"{self._table.title}: measuring costs")
        with self._shown.busy("measuring costs"):
            self._do(jobs, self._keep, fresh=True)

    def _keep(self, job: Job, result: Any) -> None:
        """Write a cost or the baselines, so that an interruption does not lose them."""
        lost = isinstance(result, (Lost, Failed))
        if job.kind == "baselines" and lost:
            self._simple = {"error": str(result)}
        elif job.kind == "baselines":
            for name, one in result.items():
                if one.items is not None:
                    write_items(self._folder / "items" / f"{name}.npy", one.items)
            self._simple = {name: dict(one.figures) for name, one in result.items()}
            write_json(self._folder / _SIMPLE, self._simple)
        elif not lost:
            self._costs[job.row.name] = {**result, "processes": float(self._processes)}
            write_json(self._folder / _COSTS, self._costs)

    def train(self) -> None:
        """Train and measure the missing runs."""

        def seconds(row: Row) -> float | None:
            cost = self._costs.get(row.name)
            return cost["overhead"] + cost["updates"] * cost["step"] / 1e3 if cost else None

        Engine(
            [self._plan],
            seconds,
            processes=self._processes,
            log=self._log,
            shown=self._shown,
            at_most=self._task.options.training.patience is not None,
        ).run()

    def outcome(self) -> Comparison:
        """Return the comparison, computed from the records."""
        entries = [self._entry(row) for row in self._plan.rows]
        figure = self._task.figure
        for name, figures in self._simple.items():
            if name != "error":
                items = read_items([(0, self._folder / "items" / f"{name}.npy")])
                label = name.replace("_", " ")
                entries.append(Entry(label, {0: float(figures[figure])}, items, simple=True))
        return Comparison(
            self._table.title,
            figure,
            entries,
            BASELINE,
            Figure(figure).sign,
            self._notes(),
            self._examples(),
        )

    def _entry(self, row: Row) -> Entry:
        records = self._plan.records(row)
        files = [(seed, self._plan.run_of(row, seed).scores) for seed in records]
        point = self._plan.chosen(row) or {}
        return Entry(
            row.name,
            {seed: float(record[self._task.figure]) for seed, record in records.items()},
            read_items(files),
            rate=f"{point[_RATE]:g}" if point and records else "",
            costs=self._costs.get(row.name, {}),
            errors=self._plan.errors(row),
        )

    def _notes(self) -> list[str]:
        data = self._task.describe_data()
        notes = [f"Data: {'; '.join(data.values())}."] if data else []
        rates = [f"{rate:g}" for rate in self._table.grid[_RATE]]
        notes.append(
            f"Rate: each attention's best of {', '.join(rates)} on the validation data, by one run "
            "each."
            if len(rates) > 1
            else f"Rate: {rates[0]} for all."
        )
        for job, why in self._plan.failed.items():
            rate, chosen = job.row.settings[_RATE], self._plan.chosen(job.row) or {}
            if rate != chosen.get(_RATE):  # other failures are in the table
                notes.append(f"{job.row.name} was not measured at the rate {rate:g}: {why}.")
        if self._table.split != "test":
            notes.append(
                "There is no test file: the figures are of the validation data, which also chose "
                "rates and checkpoints. Give --test FILE."
            )
        if "error" in self._simple:
            notes.append(f"Simple methods could not be measured: {self._simple['error']}.")
        if at_once := self._at_once():
            notes.append(
                "Costs are a mean update, a median answer to one text, and the memory of a "
                f"training process, with {at_once}."
            )
        return notes

    def _at_once(self) -> str:
        """Say with how many processes the costs were measured, perhaps in several calls."""
        measured: dict[str, list[str]] = {}
        for row in self._plan.rows:
            if cost := self._costs.get(row.name):
                number = f"{cost['processes']:.0f}" if "processes" in cost else "an unknown number"
                measured.setdefault(number, []).append(row.name)
        if len(measured) < 2:
            return "".join(f"{number} at once" for number in measured)
        parts = (f"{number} at once ({', '.join(names)})" for number, names in measured.items())
        return "; ".join(parts)

    def _examples(self) -> list[Any]:
        """Return heat maps of one text, with the matrices of all attentions side by side."""
        try:
            text = self._task.texts(self._table.split, 1)[0]
        except UserError:
            text = self._task.example
        jobs, found = list[Job](), dict[str, Any]()
        for row in self._plan.rows:
            if records := self._plan.records(row):
                path = self._plan.run_of(row, min(records)).path
                jobs.append(self._job("examples", row, path=path, texts=(text,)))

        with self._shown.busy("drawing the matrices"):
            self._do(jobs, lambda job, result: found.update({job.row.name: result}))
        ordered = {
            job.row.name: result[0]
            for job in jobs
            if isinstance(result := found.get(job.row.name), list) and result
        }
        return [side_by_side(text, ordered)] if ordered else []

    def write(self, comparison: Comparison) -> None:
        """Write the tables and the page, and link the best run."""
        texts = {"comparison.md": comparison.markdown() + "\n"}
        with contextlib.suppress(MissingPackageError):
            texts["comparison.html"] = comparison.to_html()
        for file, text in texts.items():
            write(self._folder / file, text)
        if (entry := comparison.best) is None:
            return
        row = next(row for row in self._plan.rows if row.name == entry.name)

        settings = self._task.options.training
        name, direction = judged_by(settings)
        sign = 1 if direction == "max" else -1

        def validated(seed: int) -> float:
            rows = self._plan.records(row)[seed].get("validation", [])
            rows = rows[-1:] if settings.select == "last" else rows
            figures = [sign * one[name] for one in rows if name in one]
            return max((one for one in figures if not math.isnan(one)), default=-math.inf)

        run = self._plan.run_of(row, max(sorted(entry.figures), key=validated))
        link = self._folder / ".best"
        link.unlink(missing_ok=True)
        link.symlink_to(run.path.relative_to(self._folder))
        link.replace(self._folder / "best")


def _written_assets(task: Task, folder: Path) -> Path | None:
    """Write the assets that the task learned from the data, so that no run learns them again."""
    if not task.learns_only_assets:
        return None
    for name, content in task.assets().items():
        write(folder / name, content)
    return folder
