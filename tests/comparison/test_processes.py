"""Worker processes: failures, lost workers, and the end of the process that started them."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from keras_quasiattn.lab.comparison.workers import Failed, Lost, run_jobs

ROOT = Path(__file__).resolve().parents[2]


def act(job):
    """Do a job in a worker process."""
    if job == "fail":
        raise ValueError("a number\nis wrong")
    if job == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if job == "wait":
        time.sleep(60)
    return f"{job} by {os.getpid()} with {os.environ['TF_NUM_INTRAOP_THREADS']}"


def do_all(jobs, tmp_path, **options):
    waiting, found = list(jobs), {}
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
    assert (
        isinstance(found["fail"], Failed) and str(found["fail"]) == "ValueError: a number is wrong"
    )
    assert isinstance(found["die"], Lost) and "ended" in str(found["die"])
    assert [found[name].split()[0] for name in "abc"] == ["a", "b", "c"]
    threads = max(1, (os.cpu_count() or 1) // 2)
    assert found["a"].endswith(f"with {threads}") and "TF_NUM_INTRAOP_THREADS" not in os.environ
    assert "ValueError: a number" in (tmp_path / "log").read_text()


@pytest.mark.long
def test_fresh_jobs_share_no_process(tmp_path):
    found = do_all(["a", "b"], tmp_path, number=1, fresh=True)
    assert found["a"].split()[2] != found["b"].split()[2]


@pytest.mark.long
def test_a_killed_parent_leaves_no_training_behind(tmp_path):
    code = f"""
import sys; sys.path[:0] = [{str(ROOT)!r}, {str(Path(__file__).parent)!r}]
from pathlib import Path
import test_processes
if __name__ == "__main__":
    test_processes.do_all(["wait"], Path({str(tmp_path)!r}), number=1)
"""
    script = tmp_path / "parent.py"
    script.write_text(code)
    parent = subprocess.Popen([sys.executable, str(script)])
    children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children")
    deadline = time.monotonic() + 60
    found: list[str] = []
    while len(found) < 2 and time.monotonic() < deadline:  # the worker, and a resource tracker
        time.sleep(0.2)
        found = children.read_text().split()
    parent.kill()
    parent.wait()
    deadline = time.monotonic() + 60
    while any(Path(f"/proc/{one}").exists() for one in found) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert found and not any(Path(f"/proc/{one}").exists() for one in found)
