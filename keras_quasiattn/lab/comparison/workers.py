"""Worker processes that do one job at a time, each with its share of the threads."""

import concurrent.futures
import contextlib
import multiprocessing
import os
import resource
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from keras_quasiattn.core.compiled.threads import usable_cores

MEMORY = 2.5  # GiB that a training may need
_LIBRARIES = ("OMP", "OPENBLAS", "NUMBA")
_THREADS = ["TF_NUM_INTRAOP_THREADS", *(f"{name}_NUM_THREADS" for name in _LIBRARIES)]
_FIXED = {"TF_NUM_INTEROP_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_MODULE_LOADING": "LAZY"}
_TICK = 1.0  # seconds between two checks of the processes


class Lost(Exception):
    """The process ended before its job did; the message says how."""


class Failed(Exception):
    """A job raised an exception; the message is its last line."""


def run_jobs(
    next_job: Callable[[], Any | None],
    work: Callable[[Any], Any],
    done: Callable[[Any, Any], None],
    *,
    number: int,
    log: Path,
    tick: Callable[[], None] = lambda: None,
    fresh: bool = False,
) -> None:
    """Do jobs in several processes until none are left.

    `next_job` returns None while no job can start until another one is done. `done` is called in
    this process with a job and the result of `work`, or a `Lost` or `Failed`, which stop no other
    job. The processes share the cores that this one may use, and end within seconds after it.
    TensorFlow keeps memory of every job, so a process that has used more than `MEMORY` gets no
    other; with `fresh`, none does.
    """
    # Python starts a process that counts the semaphores of pools, and tells which ones were left.
    with _output_to(log):
        idle = [_one_process() for _ in range(number)]
    busy: dict[Future[Any], tuple[ProcessPoolExecutor, Any]] = {}
    begun: dict[ProcessPoolExecutor, BaseProcess] = {}
    threads = str(max(1, usable_cores() // number))
    others = set(multiprocessing.active_children())

    def start(job: Any, pool: ProcessPoolExecutor) -> None:
        before = set(multiprocessing.active_children())
        # The first job of a pool starts its process.
        with _environment({**_FIXED, **dict.fromkeys(_THREADS, threads)}), _output_to(log):
            busy[pool.submit(_do, work, job)] = pool, job
        for process in set(multiprocessing.active_children()) - before:
            begun[pool] = process

    try:
        while True:
            while idle and (job := next_job()) is not None:
                try:
                    start(job, idle.pop())
                except concurrent.futures.BrokenExecutor:  # its process was killed between two jobs
                    start(job, _one_process())
            if not busy:
                return
            for future in concurrent.futures.wait(busy, _TICK, "FIRST_COMPLETED").done:
                pool, job = busy.pop(future)
                memory = 0.0
                try:
                    result, memory = future.result()
                except concurrent.futures.BrokenExecutor:
                    pool.shutdown()  # waits for the process, whose exit code is then known
                    result = Lost(_how_it_ended(begun[pool].exitcode, log))
                except Exception as error:
                    result = Failed(f"its result cannot be sent: {error}")
                if fresh or memory > MEMORY or isinstance(result, Lost):
                    pool.shutdown()
                    pool = _one_process()
                idle.append(pool)
                done(job, result)
            tick()
    finally:
        for process in set(multiprocessing.active_children()) - others:
            process.kill()


def _how_it_ended(code: int | None, log: Path) -> str:
    """Say what the exit code of a lost process tells."""
    if code is None or code >= 0:
        return f"its process ended with exit code {code}: see {log}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    memory = ", perhaps for want of memory" if -code == signal.SIGKILL else f": see {log}"
    return f"its process was ended by {name}{memory}"


def _one_process() -> ProcessPoolExecutor:
    context = multiprocessing.get_context("spawn")  # TensorFlow does not survive a fork
    return ProcessPoolExecutor(1, context, initializer=_begin, initargs=(os.getpid(),))


def _begin(parent: int) -> None:
    def end_with_parent() -> None:
        while os.getppid() == parent:
            time.sleep(_TICK)
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()


def _do(work: Callable[[Any], Any], job: Any) -> tuple[Any, float]:
    """Return the result of a job, or a `Failed`, and the memory that this process has used."""
    try:
        result = work(job)
    except (Exception, SystemExit) as error:
        traceback.print_exc()
        said = " ".join(str(error).split()) or type(error).__name__
        kind = "" if type(error).__name__ == "UserError" else f"{type(error).__name__}: "
        result = Failed(kind + said)
    return result, most_memory()


def most_memory() -> float:
    """Return the most memory that this process has used so far, in GiB."""
    unit = 1 if sys.platform == "darwin" else 2**10  # bytes on macOS, KiB elsewhere
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**30


@contextlib.contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    """Set environment variables for a process that starts in the `with` block."""
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in variables.keys() - before.keys():
            del os.environ[name]
        os.environ.update(before)


@contextlib.contextmanager
def _output_to(log: Path) -> Iterator[None]:
    """Redirect the output of a process that starts in the `with` block, imports included."""
    kept = [os.dup(stream) for stream in (1, 2)]
    try:
        with open(log, "a") as file:
            for stream in (1, 2):
                os.dup2(file.fileno(), stream)
        yield
    finally:
        for stream, copy in zip((1, 2), kept, strict=True):
            os.dup2(copy, stream)
            os.close(copy)
