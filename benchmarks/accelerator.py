"""Every attention on a GPU, with JAX and with PyTorch: is it right, how fast, how much memory.

    python benchmarks/accelerator.py               # at most seven minutes
    python benchmarks/accelerator.py --dry-run     # all of it on the CPU, at tiny sizes

It needs Keras, JAX and PyTorch, and neither TensorFlow nor an installed `keras_quasiattn`. A
process for each backend checks outputs and gradients of every registered attention against float64
on the CPU, then times cores and whole layers beside those of the framework and of Keras. What it
found is written after every row, so that it can be stopped at any moment.
"""

import argparse
import datetime
import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
if __name__ == "__main__":
    sys.path[0] = str(ROOT)  # not this folder, whose modules have names that others may have

from benchmarks import report  # noqa: E402
from benchmarks.measure import machine, write_json  # noqa: E402

BACKENDS = ("jax", "torch")
WORKER = [sys.executable, "-m", "benchmarks.on_device.worker"]
GRACE = 10.0  # seconds past its deadline before a process is killed
MOST_STARTS = 4  # of one backend
BAD = ("wrong", "failed")
OUT_OF_TIME = "it was stopped at the end of its time"
Row = dict[str, Any]


def environment(backend: str, dry_run: bool) -> dict[str, str]:
    """Return the environment variables of a backend's process."""
    found = {
        **os.environ,
        "KERAS_BACKEND": backend,
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]).rstrip(":"),
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "PYTHONWARNINGS": "ignore",
    }
    if dry_run:
        found |= {"CUDA_VISIBLE_DEVICES": "", "JAX_PLATFORMS": "cpu"}
    return found


def listen(
    command: list[str], env: dict[str, str], until: float, hear: Callable[[Row], None]
) -> str:
    """Run a process and pass on each line of JSON that it prints.

    Returns:
        How it ended: "" as it should, or in words.
    """
    process = subprocess.Popen(
        command, env=env, cwd=ROOT, stdout=subprocess.PIPE, text=True, errors="replace"
    )
    lines: queue.Queue[str | None] = queue.Queue()

    def read() -> None:
        for line in process.stdout or ():
            lines.put(line)
        lines.put(None)

    threading.Thread(target=read, daemon=True).start()
    try:
        while (line := lines.get(timeout=max(0.1, until - time.time()))) is not None:
            try:
                said = json.loads(line)
            except ValueError:
                continue  # what a library prints
            if isinstance(said, dict):
                hear(said)
        code = process.wait(timeout=10)
    except (queue.Empty, subprocess.TimeoutExpired):
        return OUT_OF_TIME
    finally:
        process.kill()
        process.wait()
    return f"its process ended with {code}" if code else ""


class Record:
    """The rows so far, in a file that is always whole."""

    def __init__(self, output: Path, about: Row) -> None:
        self.output, self.result = output, {**about, "backends": {}, "rows": []}
        self.write()

    def write(self) -> None:
        """Replace the file."""
        write_json(self.result, self.output)

    def add(self, backend: str, row: Row) -> None:
        """Keep a row."""
        self.result["rows"].append({"backend": backend, **row})
        self.write()


def run_backend(
    backend: str,
    record: Record,
    references: Path,
    until: float,
    dry_run: bool,
    worker: list[str] = WORKER,
) -> None:
    """Run a backend's process, and another if one dies, until all is done or the time is over."""
    done: set[str] = set()
    begun: list[str] = []
    over = False

    def hear(said: Row) -> None:
        nonlocal over
        if "about" in said:
            record.result["backends"][backend] = said["about"]
            record.write()
            print(f"{backend}: {said['about'].get('device')}", flush=True)
        elif "begin" in said:
            begun.append(said["begin"])
        elif "row" in said:
            done.add(said["row"]["unit"])
            record.add(backend, said["row"])
        over = over or "end" in said

    for _ in range(MOST_STARTS):
        if time.time() > until:
            break
        begun.clear()
        command = [*worker, "all", "--references", str(references), "--until", str(until)]
        command += ["--dry-run"] * dry_run
        if done:
            (references / f"{backend}.json").write_text(json.dumps(sorted(done)))
            command += ["--done", str(references / f"{backend}.json")]
        ended = listen(command, environment(backend, dry_run), until + GRACE, hear)
        if over:
            return
        unfinished = [unit for unit in begun if unit not in done]
        unit = unfinished[0] if unfinished else "start"
        if unfinished or not begun:  # else it ended between two, because the device was dead
            done.add(unit)
            ended = ended or "its process ended early"
            status = "skipped" if ended == OUT_OF_TIME else "failed"
            row = {"kind": "process", "unit": unit, "status": status, "message": ended}
            record.add(backend, row)


def device_names() -> list[str]:
    """Names, drivers and memories of the GPUs, by `nvidia-smi`."""
    if not shutil.which("nvidia-smi"):
        return []
    query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
    said = subprocess.run(query, capture_output=True, text=True, timeout=30, check=False)
    return said.stdout.strip().splitlines()


def commit() -> str | None:
    """Return the commit of the checkout, with "+" if files differ from it, where git knows it."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(ROOT), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        return git("rev-parse", "HEAD") + "+" * bool(git("status", "--porcelain", "-uno"))
    except (OSError, subprocess.CalledProcessError):
        return None


def summary(rows: list[Row]) -> str:
    """Return the tables that the command ends with."""
    parts = []
    checks = [row for row in rows if row["kind"] == "agreement"]
    counts = []
    for backend, dtype in dict.fromkeys((r["backend"], r.get("dtype", "-")) for r in checks):
        of_both = [r for r in checks if (r["backend"], r.get("dtype", "-")) == (backend, dtype)]
        states = [row["status"] for row in of_both]
        errors = [row["error"] for row in of_both if row["status"] == "ok"]
        counts.append(
            {
                "backend": backend,
                "dtype": dtype,
                **{
                    state: states.count(state)
                    for state in ("ok", "wrong", "failed", "unavailable", "skipped")
                },
                "largest error": max(errors, default=0.0),
            }
        )
    if counts:
        parts.append("Outputs and gradients beside float64:\n" + report.table(counts))
    timed = [
        {
            "backend": row["backend"],
            "what": f"{row['kind']} {row['attention']}",
            "size": f"{row['batch']} x {row['length']}",
            "dtype": row["dtype"],
            "mode": row["mode"],
            "passes": row["passes"],
            "ms": row.get("ms", row["status"]),
            "ratio": row.get("ratio", "-"),
            "MiB": "-" if row.get("mib") is None else row["mib"],
        }
        for row in rows
        if row["kind"] in ("core", "layer") and "attention" in row
    ]
    if timed:
        parts.append(
            "Times; a ratio is over the first of the same size, mode and passes:\n"
            + report.table(timed)
        )
    bad = [
        f"{row['backend']}: {row['unit']} {row.get('attention', '')} {row.get('passes', '')} "
        f"{row['status']}: {row['message']}"
        for row in rows
        if row["status"] in BAD
    ]
    parts.append("\n".join(["Not as it should be:", *bad]) if bad else "Nothing failed.")
    skipped = sum(row["status"] == "skipped" for row in rows)
    return "\n\n".join([*parts, f"{len(rows)} rows, {skipped} of them skipped."])


def main(arguments: list[str] | None = None) -> int:
    """Run both backends in turn; return 1 if a row is wrong or failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=7.0, help="that all of it may take")
    parser.add_argument("--backends", nargs="+", choices=BACKENDS, default=list(BACKENDS))
    parser.add_argument("--dry-run", action="store_true", help="on the CPU, tiny sizes")
    parser.add_argument("--output", type=Path, help="a .json")
    given = parser.parse_args(arguments)
    if given.minutes <= 0:
        parser.error(f"--minutes must be more than 0. Received: {given.minutes}")
    folder = Path(tempfile.gettempdir()) if given.dry_run else ROOT / "benchmarks" / "results"
    output = given.output or folder / "accelerator.json"
    started = time.time()
    until = started + 60 * given.minutes - GRACE
    record = Record(
        output,
        {
            "command": " ".join(["python benchmarks/accelerator.py", *(arguments or sys.argv[1:])]),
            "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "commit": commit(),
            "gpus": [] if given.dry_run else device_names(),
            "machine": machine(),
        },
    )
    with tempfile.TemporaryDirectory() as name:
        references = Path(name)
        exact = subprocess.Popen(
            [*WORKER, "references", "--references", name, "--until", str(until)]
            + ["--dry-run"] * given.dry_run,
            env={**environment("torch", given.dry_run), "CUDA_VISIBLE_DEVICES": ""},
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
        )
        try:
            for number, backend in enumerate(given.backends):
                share = (until - time.time()) / (len(given.backends) - number)
                run_backend(backend, record, references, time.time() + share, given.dry_run)
        finally:
            exact.kill()
            exact.wait()
    record.result["seconds"] = time.time() - started
    record.write()
    print(summary(record.result["rows"]))
    print(f"{record.result['seconds']:.0f} s; written to {output}")
    return int(any(row["status"] in BAD for row in record.result["rows"]))


if __name__ == "__main__":
    sys.exit(main())
