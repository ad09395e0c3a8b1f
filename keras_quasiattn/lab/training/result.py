"""Rows of a results file: metrics, and everything needed to reproduce them."""

import contextlib
import datetime
import json
import os
import platform
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras_quasiattn
from keras_quasiattn.files import rewrite
from keras_quasiattn.lab.training.run_folder import RunFolder
from keras_quasiattn.lab.training.selection import candidates


def result_row(folder: RunFolder, split: str, figures: Mapping[str, Any]) -> dict[str, Any]:
    """Return a results row: metrics of a finished run, with its command, seed, options and machine.

    Args:
        folder: the finished run.
        split: the data split on which the metrics were measured.
        figures: the metrics by name.

    Returns:
        A JSON-serializable row. `seconds` is the time of training and validation, including
        start-up and compilation; `validation` has the validation metrics of every checkpoint that
        could become the model; `assets` the hashes of files that the run learned from its data,
        such as the vocabulary; `commit` is the commit of the package's source, if it is a Git
        checkout.
    """
    task_config = folder.config["task_config"]
    history = folder.history()
    return {
        "task": folder.config["task"],
        **{name: task_config[name] for name in ("preset", "model", "seed")},
        "split": split,
        **figures,
        "steps": history[-1]["step"],
        "seconds": round(sum(row["seconds"] for row in history)),
        "parameters": folder.load_model().count_params(),
        "options": task_config["options"],
        **folder.config["options"],
        **folder.noted,
        "versions": folder.config["versions"],
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "processor": _processor(),
        "commit": source_commit(),
        "assets": {
            name: digest[:16]
            for name, digest in folder.manifest().items()
            if name != folder.model_file.name
        },
        "validation": [
            {
                name.removeprefix("val_"): value
                for name, value in row.items()
                if name == "step" or name.startswith("val_")
            }
            for row in candidates(history)
        ],
        "date": datetime.date.today().isoformat(),
        "command": folder.config["command"],
    }


def _processor() -> str:
    """Return the model of this machine's processor, if the system reports it."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()


def source_commit() -> str | None:
    """Return the commit of the package's source, with "+" for changes; None outside Git."""
    source = Path(keras_quasiattn.__file__).parent

    def git(*words: str) -> str:
        command = ["git", "-C", str(source), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        git("ls-files", "--error-unmatch", "_version.py")  # may be another checkout
        return git("rev-parse", "HEAD") + ("+" if git("status", "--porcelain", ".") else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def append_result(file: str | Path, row: Mapping[str, Any]) -> None:
    """Append a row to a JSON Lines file, atomically, even while other processes append to it.

    Raises:
        UserError: the file cannot be written.
    """
    rewrite(Path(file), lambda rows: f"{rows}{json.dumps(dict(row))}\n")
