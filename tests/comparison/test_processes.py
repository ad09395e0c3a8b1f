"""Worker processes: failures, lost workers, and the end of the process that started them."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import patch

import pytest
import warm

from keras_quasiattn.lab.comparison import workers
from keras_quasiattn.lab.comparison.workers import Failed, Lost, run_jobs

ROOT = Path(__file__).resolve().parents[2]
# Keras and TensorFlow would take seconds in each process, and no job here needs them.
LIGHT = {"QUASIATTN_WITHOUT_KERAS": "yes"}


def act(job):
    """Do a job in a worker process."""
    if job == "fail":
        raise ValueError("a number\nis wrong")
    if job == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if job == "end":
        os._exit(3)
    if job == "wait":
        time.sleep(60)
    return f"{job} by {os.getpid()} with {os.environ['TF_NUM_INTRAOP_THREADS']}"


def do_all(jobs, tmp_path, **options):
    waiting, found = list(jobs), {}
    with patch.dict(os.environ, LIGHT):
        run_jobs(
            lambda: waiting.pop(0) if waiting else None,
            act,
            found.__setitem__,
            log=tmp_path / "log",
            **options,
        )
    return found


@pytest.mark.long
def test_failures_and_lost_processes_stop_no_other_job(tmp_path):
    found = do_all(["a", "fail", "die", "b", "c"], tmp_path, number=2)
    assert isinstance(found["fail"], Failed)
    assert str(found["fail"]) == "ValueError: a number is wrong"
    assert isinstance(found["die"], Lost)
    assert str(found["die"]) == "its process was ended by SIGKILL, perhaps for want of memory"
    assert [found[name].split()[0] for name in "abc"] == ["a", "b", "c"]
    threads = max(1, len(os.sched_getaffinity(0)) // 2)
    assert found["a"].endswith(f"with {threads}") and "TF_NUM_INTRAOP_THREADS" not in os.environ
    assert "ValueError: a number" in (tmp_path / "log").read_text()


def test_a_lost_process_always_blamed_the_memory(tmp_path):
    found = do_all(["end"], tmp_path, number=1)
    assert str(found["end"]) == f"its process ended with exit code 3: see {tmp_path}/log"
    said = workers._how_it_ended(-signal.SIGTERM, tmp_path)
    assert said == f"its process was ended by SIGTERM: see {tmp_path}"


@pytest.mark.long
def test_a_process_that_is_killed_between_two_jobs_ended_them_all(tmp_path):
    waiting, found = ["a", "b"], {}

    def done(job, result):
        found[job] = result
        for process in multiprocessing.active_children() if job == "a" else ():
            process.kill()
            process.join()
            time.sleep(0.5)  # until its pool has noticed

    with patch.dict(os.environ, LIGHT):
        run_jobs(
            lambda: waiting.pop(0) if waiting else None,
            act,
            done,
            number=1,
            log=tmp_path / "log",
        )
    assert found["b"].startswith("b by ")


@pytest.mark.long
def test_fresh_jobs_share_no_process(tmp_path):
    found = do_all(["a", "b"], tmp_path, number=1, fresh=True)
    assert found["a"].split()[2] != found["b"].split()[2]


@pytest.mark.long
def test_a_process_that_has_grown_gets_no_other_job(tmp_path, monkeypatch):
    """TensorFlow kept 250 MB of every training: 17 of them in one process took 5.5 GB."""
    found = do_all(["a", "b"], tmp_path, number=1)
    assert found["a"].split()[2] == found["b"].split()[2]
    monkeypatch.setattr(workers, "MEMORY", 0.001)
    found = do_all(["a", "b"], tmp_path, number=1)
    assert found["a"].split()[2] != found["b"].split()[2]


def script_of(folder, job, first="pass"):
    """Write a script that does a job in a process of its own, and prints what it returns."""
    places = [str(one) for one in (ROOT, ROOT / "tests", Path(__file__).parent)]
    script = folder / "script.py"
    script.write_text(
        f"""
import os, sys; sys.path[:0] = {places}
from pathlib import Path
import test_processes
if __name__ == "__main__":
    {first}
    print(test_processes.do_all([{job!r}], Path({str(folder)!r}), number=1)[{job!r}])
"""
    )
    return script


@pytest.mark.long
def test_processes_share_the_cores_that_this_one_may_use(tmp_path):
    """They shared all cores of the machine, also where `taskset` or a container allows fewer."""
    script = script_of(tmp_path, "a", "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})")
    assert warm.printed([script], warm.fresh, variables=LIGHT).endswith("with 1\n")


@pytest.mark.long
def test_a_killed_parent_leaves_no_training_behind(tmp_path):
    script = script_of(tmp_path, "wait")
    parent = subprocess.Popen(
        [sys.executable, str(script)], stderr=subprocess.PIPE, env={**os.environ, **LIGHT}
    )
    children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children")
    deadline = time.monotonic() + 60
    found: list[str] = []
    while len(found) < 2 and time.monotonic() < deadline:  # the worker, and a resource tracker
        time.sleep(0.2)
        found = children.read_text().split()
    parent.kill()
    # A resource tracker wrote of leaked semaphores into the terminal.
    assert b"semaphore" not in parent.communicate()[1]
    deadline = time.monotonic() + 60
    while any(Path(f"/proc/{one}").exists() for one in found) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert found and not any(Path(f"/proc/{one}").exists() for one in found)
