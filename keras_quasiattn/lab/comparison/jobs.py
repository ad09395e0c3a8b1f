"""The jobs of a comparison's processes: measure costs, train and measure, or compute heat maps."""

import io
import statistics
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_quasiattn.errors import UserError
from keras_quasiattn.files import write
from keras_quasiattn.lab import tasks
from keras_quasiattn.lab.comparison.plan import Job
from keras_quasiattn.lab.comparison.workers import most_memory
from keras_quasiattn.lab.tasks import Task
from keras_quasiattn.lab.tasks.subtraction import subtraction
from keras_quasiattn.lab.tasks.task import Measured
from keras_quasiattn.lab.training import result_row, train
from keras_quasiattn.lab.training.strategy import dtype_policy
from keras_quasiattn.lab.training.trainer import compiled_model

_TIMED = 20  # updates and answers to time
_WARM_UP = 3  # updates before timing


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
    folder = train(task, job.path, policy=job.policy, progress=False, command=job.command)
    task.prepare()
    folder.require_same_data(task)  # a run that had finished before is not trained again
    model = folder.load_model()
    measured = task.measure(model, job.split, job.limit)
    negative = subtraction(task, model, job.split, job.limit, measured)
    figures = {**measured.figures, **negative}
    folder.write_metrics(job.split, figures)
    if measured.items is not None:
        write_items(job.scores, measured.items)
    return result_row(folder, job.split, figures)


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
    with dtype_policy(job.policy):
        model = compiled_model(task, job.policy)
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
    from keras_quasiattn.lab.report.model_view import view_of_run
    from keras_quasiattn.lab.training import RunFolder

    folder = RunFolder.open(job.path, finished=True)
    try:
        view = view_of_run(job.row.name, folder, job.data_dir, job.texts, None, 1)
    except UserError:  # the task cannot show what its model attends to
        return []
    return view.examples


_KINDS = {"cost": _cost, "run": _run, "baselines": _baselines, "examples": _examples}
