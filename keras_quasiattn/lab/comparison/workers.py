"""Worker processes that do one job at a time, each with its share of the threads."""

import contextlib
import multiprocessing
import multiprocessing.connection
import os
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

_THREADS = (
    "TF_NUM_INTRAOP_THREADS",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)
_FIXED = {"TF_NUM_INTEROP_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_MODULE_LOADING": "LAZY"}
_TICK = 1.0  # seconds between two checks of the processes


class Lost(Exception):
    """The process ended before its job did, for example because memory ran out."""


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

    `next_job` returns None while there is none until another job is done. `done` is called in this
    process with a job and the result of `work`, or a `Lost` or `Failed`. The processes share the
    threads of this machine; with `fresh`, every job gets a new one. A job that fails or loses its
    process does not stop the others. If this process ends, even if killed, the others end within
    seconds.
    """
    with contextlib.ExitStack() as stack:
        idle = [stack.enter_context(_Worker(work, number, log)) for _ in range(number)]
        busy: dict[Any, tuple[_Worker, Any]] = {}
        while True:
            while idle and (job := next_job()) is not None:
                worker = idle.pop()
                worker.begin(job)
                busy[worker.pipe] = worker, job
            if not busy:
                return
            for pipe in multiprocessing.connection.wait(list(busy), _TICK):
                worker, job = busy.pop(pipe)
                result = worker.result()
                if fresh or isinstance(result, Lost):
                    worker.end()
                    worker = stack.enter_context(_Worker(work, number, log))
                idle.append(worker)
                done(job, result)
            tick()


class _Worker:
    """A process that waits for jobs; it starts with the first one."""

    def __init__(self, work: Callable[[Any], Any], number: int, log: Path) -> None:
        self._work, self._number, self._log = work, number, log
        self._process: Any = None
        self.pipe: Any = None

    def __enter__(self) -> "_Worker":
        return self

    def __exit__(self, *error: object) -> None:
        self.end()

    def begin(self, job: Any) -> None:
        if self._process is None:
            context = multiprocessing.get_context("spawn")  # TensorFlow does not survive a fork
            self.pipe, there = context.Pipe()
            self._process = context.Process(
                target=_serve, args=(there, self._work, os.getpid()), daemon=True
            )
            threads = max(1, (os.cpu_count() or 1) // self._number)
            variables = {**_FIXED, **dict.fromkeys(_THREADS, str(threads))}
            with _environment(variables), _output_to(self._log):
                self._process.start()
            there.close()
        self.pipe.send(job)

    def result(self) -> Any:
        try:
            return self.pipe.recv()
        except EOFError:
            self._process.join()
            code = self._process.exitcode
            return Lost(f"its process ended with code {code}, perhaps for want of memory")

    def end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self.pipe.close()
            self._process = None


@contextlib.contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    """Set environment variables for a process that starts in the `with` block."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


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


def _serve(pipe: Any, work: Callable[[Any], Any], parent: int) -> None:
    """Do jobs until the other end is closed: the main function of a worker process."""
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    while True:
        try:
            job = pipe.recv()
        except (EOFError, KeyboardInterrupt):
            return
        try:
            result = work(job)
        except KeyboardInterrupt:
            return
        except BaseException as error:
            traceback.print_exc()
            said = " ".join(str(error).split()) or type(error).__name__
            kind = "" if type(error).__name__ == "UserError" else f"{type(error).__name__}: "
            result = Failed(kind + said)
        pipe.send(result)


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_TICK)
    os._exit(1)
