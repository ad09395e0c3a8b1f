"""Steps per second of the same batch with one and with two worker processes on this machine.

    python -m benchmarks.workers --output benchmarks/results/workers.json

One process computes the whole batch; two workers compute half of it each and add up their gradients
over loopback. Both use all cores, so two workers cannot be faster on one machine: what they lose is
the cost of the exchange. With `--threads 1` a process has one core, as if the workers were two
machines with one core each. A figure is the median of all periods except the first, which includes
tracing. The worker counts take turns.
"""

import argparse
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import machine, write_json

COUNTS = (1, 2)


def write_texts(path: Path, count: int, length: int) -> None:
    """Write texts of random words, each with one of two labels."""
    draw = random.Random(0)
    lines = (
        " ".join(f"w{draw.randrange(2000)}" for _ in range(length)) + f"\t{draw.choice('ab')}\n"
        for _ in range(count)
    )
    path.write_text("text\tlabel\n" + "".join(lines), encoding="utf-8")


def cluster_environments(workers: int) -> list[dict[str, str]]:
    """TF_CONFIG for each of several workers on this machine, at free ports."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(workers)]
    cluster = {"worker": [f"127.0.0.1:{one.getsockname()[1]}" for one in sockets]}
    for one in sockets:
        one.close()
    return [
        {"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": "worker", "index": index}})}
        for index in range(workers)
    ]


def train(folder: Path, run: Path, workers: int, arguments: argparse.Namespace) -> list[float]:
    """Train with this many workers; returns the seconds of every period except the first."""
    command = [sys.executable, "-m", "quasiattn", "train", "classify", "--preset", "own", "--quiet"]
    command += ["--model", arguments.model, "--run", str(run), "--strategy", "multi-worker"]
    settings = {
        "data.train": str(folder / "train.tsv"),
        "data.test": str(folder / "train.tsv"),
        "training.batch_size": arguments.batch,
        "training.steps": arguments.steps * arguments.periods,
        "training.checkpoint_every": arguments.steps,
        "training.patience": "none",
    }
    command += [
        word for option, value in settings.items() for word in ("--set", f"{option}={value}")
    ]
    environment = dict(os.environ)
    if arguments.threads:
        environment |= {
            "TF_NUM_INTRAOP_THREADS": str(arguments.threads),
            "TF_NUM_INTEROP_THREADS": str(arguments.threads),
        }
    processes = [
        subprocess.Popen(command, env={**environment, **cluster})
        for cluster in cluster_environments(workers)
    ]
    codes = [process.wait() for process in processes]
    if any(codes):
        raise SystemExit(f"the training of {workers} workers ended with {codes}")
    history = [
        json.loads(line)
        for line in (run / "history.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    return [row["seconds"] for row in history[1:]]


def main() -> None:
    """Parse the arguments, train, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="bilstm_coda")
    parser.add_argument(
        "--batch", type=int, default=64, help="texts of an update, over all workers"
    )
    parser.add_argument("--length", type=int, default=30, help="words of a text")
    parser.add_argument("--steps", type=int, default=50, help="updates of a period")
    parser.add_argument("--periods", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument(
        "--threads", type=int, default=0, help="of each process; 0 leaves it to TensorFlow"
    )
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    seconds: dict[int, list[float]] = {count: [] for count in COUNTS}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_texts(folder / "train.tsv", 40 * arguments.batch, arguments.length)
        for repeat in range(arguments.repeats):
            for count in COUNTS:
                seconds[count] += train(folder, folder / f"run-{count}-{repeat}", count, arguments)
    rates = {count: arguments.steps / float(np.median(values)) for count, values in seconds.items()}
    record: dict[str, Any] = {
        "command": " ".join(["python -m benchmarks.workers", *sys.argv[1:]]),
        "machine": machine(),
        "model": arguments.model,
        "batch": arguments.batch,
        "threads": arguments.threads,
        "steps_per_second": {str(count): rate for count, rate in rates.items()},
        "two_to_one": rates[2] / rates[1],
    }
    for count, rate in rates.items():
        print(f"{count} worker{'s' * (count > 1)}: {rate:.2f} steps/s")
    print(f"two against one: {record['two_to_one']:.2f}")
    if arguments.output:
        write_json(record, arguments.output)


if __name__ == "__main__":
    main()
