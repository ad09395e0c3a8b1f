"""Train and measure the missing runs of plans or tables, several at once; report progress."""

import io
import itertools
import os
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_quasiattn.core.compiled.threads import usable_cores
from keras_quasiattn.errors import UserError
from keras_quasiattn.files import write
from keras_quasiattn.lab import tasks
from keras_quasiattn.lab.comparison.experiments import (
    Job,
    Key,
    Plan,
    Point,
    Record,
    Row,
    Table,
    is_number,
)
from keras_quasiattn.lab.comparison.tables import checked_records
from keras_quasiattn.lab.comparison.workers import MEMORY, most_memory, run_jobs
from keras_quasiattn.lab.tasks import Task
from keras_quasiattn.lab.tasks.preset import SPLITS
from keras_quasiattn.lab.tasks.subtraction import subtraction
from keras_quasiattn.lab.tasks.task import Measured
from keras_quasiattn.lab.training import RunFolder, append_result, result_row, train
from keras_quasiattn.lab.training.config import part_name
from keras_quasiattn.lab.training.progress import Progress, duration
from keras_quasiattn.lab.training.strategy import dtype_policy
from keras_quasiattn.lab.training.trainer import compiled_model

_TIMED = 20  # updates and answers to time
_WARM_UP = 3  # updates before timing
_Run = tuple[Job, Key]
_SAID_EVERY = {True: 1.0, False: 20.0}  # seconds; on a terminal, or not


def do(job: Job) -> Any:
    """Do a job; the kind of the job determines the result."""
    keras.utils.clear_session()  # frees the graphs of earlier jobs
    return _KINDS[job.kind](job)


def _task(job: Job) -> Task:
    row = job.row
    task = tasks.get(row.task)(
        preset=row.preset,
        model=row.model,
        seed=job.seed,
        data_dir=job.data_dir,
        overrides=row.settings,
    )
    if job.assets is not None:
        task.read_assets(job.assets)
    return task


def _run(job: Job) -> dict[str, Any]:
    """Train, unless the run is finished, and measure; return the record of the run."""
    task = _task(job)
    folder = train(task, job.path, policy=job.row.policy, progress=False, command=job.command)
    task.prepare()
    folder.require_same_data(task)  # a run that had finished before is not trained again
    model = folder.load_model()
    measured = task.measure(model, job.split, job.limit)
    negative = subtraction(task, model, job.split, job.limit, measured)
    figures = {**measured.figures, **negative}
    folder.write_metrics(job.split, figures, job.limit)
    if measured.items is not None:
        write_items(job.scores, measured.items)
    return result_row(folder, part_name(job.split, job.limit), figures)


def write_items(file: Path, scores: np.ndarray) -> None:
    """Write the scores (items,) of a run, as float32 in NumPy's format."""
    content = io.BytesIO()
    np.save(content, np.asarray(scores, np.float32))
    write(file, content.getvalue())


def read_items(files: Iterable[tuple[int, Path]]) -> dict[int, np.ndarray]:
    """Return the scores of runs by seed, from those files that exist."""
    found = {}
    for seed, file in files:
        if file.exists():
            try:
                found[seed] = np.load(file, allow_pickle=False).astype(np.float64)
            except (OSError, ValueError, EOFError):
                raise UserError(f"{file} is damaged: it has no scores of test items") from None
    return found


def _baselines(job: Job) -> Mapping[str, Measured]:
    """Measure the simple baselines on the same examples."""
    task = _task(job)
    task.prepare()
    return task.measure_baselines(job.split, job.limit)


def _cost(job: Job) -> dict[str, float]:
    """Measure the cost of training and answering in a process that does nothing else.

    `step` is the mean time of an update and `answer` the median time of an answer to one text, in
    milliseconds; `memory` is the peak memory of the process in training, in MiB; `overhead` is the
    time until the first update is done, in seconds.
    """
    began = time.perf_counter()
    task = _task(job)
    task.prepare()
    settings = task.training_settings
    keras.utils.set_random_seed(job.seed)
    with dtype_policy(job.row.policy):
        model = compiled_model(task, job.row.policy)
        starts: list[float] = []  # of the batches
        clock = keras.callbacks.LambdaCallback(
            on_train_batch_begin=lambda batch, logs: starts.append(time.perf_counter())
        )
        model.fit(
            task.training_data(0),
            steps_per_epoch=_WARM_UP + _TIMED + 1,
            callbacks=[clock],
            shuffle=False,
            verbose=0,
        )
        # The first update includes compilation.
        memory = 1024 * most_memory()  # in MiB
        overhead = starts[1] - began
        finished = task.finished(model)
        signature = task.serving_signature(finished)
        text = task.example
        arguments = [tf.constant([column]) for column in signature.columns(text)]
        times = []
        for _ in range(_WARM_UP + _TIMED):
            asked = time.perf_counter()
            keras.tree.map_structure(np.asarray, signature.function(*arguments))
            times.append(time.perf_counter() - asked)
    return {
        "step": 1e3 * float(np.mean(np.diff(starts[_WARM_UP:]))),
        "answer": 1e3 * statistics.median(times[_WARM_UP:]),
        "memory": memory,
        "weights": float(finished.count_params()),
        "updates": float(settings.steps),
        "overhead": overhead,
    }


def _examples(job: Job) -> list[Any]:
    """Return the heat maps of the job's texts from a finished run; none if the task has none."""
    from keras_quasiattn.lab.report.write_report import view_of_run

    folder = RunFolder.open(job.path, finished=True)
    try:
        view = view_of_run(job.row.name, folder, job.data_dir, job.texts, None, 1)
    except UserError:  # the task cannot show what its model attends to
        return []
    return view.examples


_KINDS = {"cost": _cost, "run": _run, "baselines": _baselines, "examples": _examples}


class Engine:
    """Train and measure the missing runs of plans."""

    def __init__(
        self,
        plans: Sequence[Plan],
        seconds: Callable[[Row], float | None],
        *,
        processes: int,
        log: Path,
        shown: Progress,
        at_most: bool = False,
    ) -> None:
        self._plans, self._known = plans, seconds
        self._processes, self._log, self._shown = processes, log, shown
        self._at_most = at_most
        # Tables may share a run, which is done once.
        self._running: dict[_Run, Plan] = {}
        self._results: dict[_Run, Record | str] = {}
        self._recorded: set[tuple[Path, _Run]] = set()
        self._began = self._said = time.monotonic()
        self._all = self._seconds(self._waiting())

    def run(self) -> None:
        """Do all missing runs; a failed run does not stop the others."""
        waiting = self._waiting()
        if waiting:
            known = all(self._known(row) is not None for row in waiting)
            about = duration(self._all / min(self._processes, len(waiting)))
            takes = f"about {about}{' at most' if self._at_most else ''}"
            self._shown.say(
                f"{len(waiting)} runs to train, {self._processes} at once: "
                f"{takes if known else 'the time is known after the first'}"
            )
        run_jobs(self._next, do, self._done, number=self._processes, log=self._log, tick=self._tick)

    def _next(self) -> Job | None:
        # Only one process may train in a run folder, whatever its run is measured on.
        busy = {job.path for job, _ in self._running}
        for plan in self._plans:
            while (job := plan.next(busy)) is not None:
                run = _run_of(job)
                if run not in self._results:
                    self._running[run] = plan
                    return job
                self._record(plan, run)
        return None

    def _done(self, job: Job, result: object) -> None:
        run = _run_of(job)
        plan = self._running.pop(run)
        self._results[run] = result if isinstance(result, dict) else str(result)
        self._record(plan, run)  # other plans with the run are told when they ask for it
        if isinstance(result, dict):
            name = plan.table.choose
            figure = (
                f"{job.split} {name} {result[name]:.4f}" if is_number(result.get(name)) else "done"
            )
            self._shown.say(f"{job.path.name}: {figure}{self._left()}")
        else:
            self._shown.say(f"{job.path.name}: failed: {result}")

    def _record(self, plan: Plan, run: _Run) -> None:
        """Give a plan the result of a run, and write it to the records of the plan's table once."""
        result, place = self._results[run], (plan.table.records, run)
        if not isinstance(result, str) and place not in self._recorded:
            append_result(plan.table.records, result)
            self._recorded.add(place)
        plan.done(run[0], result)

    def _tick(self) -> None:
        now = time.monotonic()
        if self._running and now - self._said >= _SAID_EVERY[self._shown.terminal]:
            self._said = now
            names = ", ".join(job.path.name for job, _ in self._running)
            self._shown.replace(f"training {names}{self._left()}")

    def _left(self) -> str:
        """Return the time left, estimated from the speed of the runs so far."""
        ahead = self._seconds(self._waiting())
        for job, _ in self._running:
            ahead += (1 - _share(job.path)) * self._seconds([job.row])
        passed, done = time.monotonic() - self._began, self._all - ahead
        if done <= 0.02 * self._all or ahead <= 0:
            return ""
        return f"; about {duration(passed * ahead / done)} left"

    def _waiting(self) -> list[Row]:
        return [row for plan in self._plans for row in plan.trainings()]

    def _seconds(self, rows: Sequence[Row]) -> float:
        return sum(self._known(row) or 60.0 for row in rows)


def _run_of(job: Job) -> _Run:
    """Return what a run is known by: two rows may have the same folder, but not the same key."""
    return job, job.row.key(job.split)


def _share(path: Path) -> float:
    """Return the share of a run's updates that are done, from its history."""
    try:
        folder = RunFolder.open(path)
        last = folder.history()[-1]["step"]
        return min(1.0, last / (folder.steps or last))
    except (UserError, IndexError):
        return 0.0


def usual_processes() -> int:
    """Return how many trainings the cores and the memory of this machine allow at once."""
    cores = usable_cores()
    try:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    except (ValueError, OSError):
        return cores
    return max(1, min(cores, int(free / MEMORY)))


def train_tables(
    tables: Sequence[Table],
    runs: str | Path,
    *,
    data_dir: str | Path = "data",
    vectors: str | Path | None = None,
    processes: int | None = None,
    progress: bool = True,
    command: Sequence[str] = (),
) -> dict[Job, str]:
    """Train and measure the runs that are missing from the records; return what failed, and why."""
    runs = Path(runs)
    for table in tables:
        if table.split not in SPLITS:
            raise UserError(
                f"table {table.name!r} is measured on {table.split!r}, which is not a split of "
                "data: show it with --show"
            )
        if vectors is None and any(row.model and row.wants_vectors for row in table.rows):
            raise UserError(f"the models of table {table.name!r} read words: add --vectors FILE")
    records = {file: checked_records(file) for file in {table.records for table in tables}}

    def path_of(row: Row, point: Point, seed: int) -> Path:
        return runs / row.with_settings(point).run(seed)

    chosen = None if vectors is None else str(vectors)
    like = Job(items=runs / "items", data_dir=Path(data_dir), command=tuple(command))
    plans = [Plan(table, records[table.records], path_of, chosen, like) for table in tables]
    seconds: dict[tuple[str, str, str], list[float]] = {}  # of recorded runs of a model on data
    for row in itertools.chain(*records.values()):
        if "seconds" in row:
            key = row["task"], row["preset"], row["model"]
            seconds.setdefault(key, []).append(row["seconds"])
    times = {key: statistics.median(some) for key, some in seconds.items()}
    with Progress(progress) as shown:
        runs.mkdir(parents=True, exist_ok=True)
        Engine(
            plans,
            lambda row: times.get((row.task, row.preset, row.model)),
            processes=processes or usual_processes(),
            log=runs / "processes.log",
            shown=shown,
        ).run()
    return {run: why for plan in plans for run, why in plan.failed.items()}
