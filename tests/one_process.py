"""Do a comparison's jobs in its own process, one after another; test_processes.py has several."""

import pickle
from typing import Any

from keras_quasiattn.lab.comparison import engine, of_task
from keras_quasiattn.lab.comparison.workers import _do


def run_jobs(next_job: Any, work: Any, done: Any, **options: Any) -> None:
    """Do what `workers.run_jobs` does, with copies of the jobs and of their results."""
    while (job := next_job()) is not None:
        result, _ = _do(work, pickle.loads(pickle.dumps(job)))
        done(job, pickle.loads(pickle.dumps(result)))


def patch(put: Any = setattr) -> None:
    """Put it in place of the processes, and time few updates."""
    for module in (engine, of_task):
        put(module, "run_jobs", run_jobs)
    put(engine, "_TIMED", 2)
    put(engine, "_WARM_UP", 1)
