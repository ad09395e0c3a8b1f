"""Train one model with two processes on this machine, as two machines would.

    python examples/workers.py --to runs/workers

Each worker gets the addresses of all workers. On your own machines, start
`quasiattn train … --strategy multi-worker` on each one, with its own TF_CONFIG and a run folder
that all of them can reach. If one stops, the others report it and stop; the same commands resume
from the last checkpoint.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

from made_up_texts import SMALL, write_table


def free_ports(count: int) -> list[int]:
    """Return free ports."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def main() -> None:
    """Start the workers, wait for them and print the figures in the run folder."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--to", type=Path, required=True)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--steps", type=int, default=40, help="updates; a multiple of 2")
    arguments = parser.parse_args()
    if arguments.steps < 2:
        parser.error(f"--steps is {arguments.steps}: it must be at least 2")
    arguments.to.mkdir(parents=True, exist_ok=True)
    table, run = write_table(arguments.to / "my.tsv", 240), arguments.to / "run"
    settings = {
        **SMALL,
        "training.steps": str(arguments.steps),
        "training.checkpoint_every": str(arguments.steps // 2),
    }
    command = [
        sys.executable,
        "-m",
        "quasiattn",
        "train",
        "classify",
        "--data",
        str(table),
        "--run",
        str(run),
    ]
    command += ["--data-dir", str(arguments.to / "data"), "--strategy", "multi-worker", "--quiet"]
    command += [word for setting in settings.items() for word in ("--set", "=".join(setting))]
    addresses = [f"127.0.0.1:{port}" for port in free_ports(arguments.workers)]
    workers = []
    for index in range(arguments.workers):
        where = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
        environment = {**os.environ, "TF_CONFIG": json.dumps(where)}
        workers.append(subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL))
    failed = [index for index, worker in enumerate(workers) if worker.wait()]
    if failed:
        sys.exit(f"workers.py: worker {', '.join(map(str, failed))} failed")
    replicas = json.loads((run / "config.json").read_text())["options"]["replicas"]
    figures = json.loads((run / "metrics.json").read_text())["validation"]
    print(f"{replicas} workers: {figures['accuracy']:.3f} of the validation texts right")


if __name__ == "__main__":
    main()
