"""Interleaved timing, peak memory of a new process, and the speed of the machine itself."""

import json
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np


def interleaved_medians(
    cases: dict[str, Callable[[], Any]],
    repeats: int,
    seconds: float = float("inf"),
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Median milliseconds of every case; the cases take turns, so that noise affects all of them.

    Args:
        cases: functions to call, by name; the first two calls of each are not counted.
        repeats: counted calls of each.
        seconds: no new round starts after this many seconds, except for the first three.
        clock: what tells the time of a call; `time.process_time` counts the seconds of all cores,
            and less of what else the machine does.
    """
    times: dict[str, list[float]] = {name: [] for name in cases}
    for case in cases.values():
        case()
        case()
    end = time.perf_counter() + seconds
    for number in range(repeats):
        if number >= 3 and time.perf_counter() > end:
            break
        for name, case in cases.items():
            start = clock()
            case()
            times[name].append(1e3 * (clock() - start))
    return {name: float(np.median(values)) for name, values in times.items()}


def machine() -> dict[str, Any]:
    """Return the machine and the package versions behind the figures."""
    model = platform.processor()
    try:
        with open("/proc/cpuinfo") as lines:
            model = next(
                line.split(":")[1].strip() for line in lines if line.startswith("model name")
            )
    except (OSError, StopIteration):
        pass
    versions = {}
    for package in ("tensorflow", "keras", "numpy", "numba", "torch", "jax"):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "versions": versions,
        "load_average_at_start": load,
    }


def machine_rates() -> dict[str, float]:
    """Measured bytes/s of a large copy, and multiply-adds/s of a matrix product on all cores."""
    large = np.ones(1 << 26, np.float32)
    target = np.empty_like(large)
    matrix = np.ones((2048, 2048), np.float32)
    cases = {"copy": lambda: np.copyto(target, large), "product": lambda: np.matmul(matrix, matrix)}
    times = interleaved_medians(cases, 7)
    return {
        # A copy reads and writes; a product of (n, n) matrices takes n³ multiply-adds.
        "bytes_per_second": 2 * large.nbytes / (times["copy"] * 1e-3),
        "operations_per_second": matrix.shape[0] ** 3 / (times["product"] * 1e-3),
    }


def write_json(result: Any, path: Path) -> None:
    """Write the whole file, or leave the old one as it was."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(json.dumps(result, indent=1) + "\n")
    os.replace(temporary, path)


def peak_memory(arguments: list[str]) -> dict[str, float]:
    """Return the figures that `benchmarks.memory` prints when it runs in a new process."""
    result = subprocess.run(
        [sys.executable, "-m", "benchmarks.memory", *arguments],
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    if result.returncode:
        raise RuntimeError(
            f"peak memory of {arguments} failed: {result.stderr.strip().splitlines()[-1:]}"
        )
    return json.loads(result.stdout.strip().splitlines()[-1])


def resident_peak() -> float:
    """Peak memory of this process so far, in MiB.

    On Linux `ru_maxrss` starts at the parent's value, so VmHWM, which is this program's alone, is
    tried first.
    """
    try:
        with open("/proc/self/status") as lines:
            return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
