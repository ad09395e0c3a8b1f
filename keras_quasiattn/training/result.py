"""Rows of a results file: what was measured, and everything needed to measure it again."""

import datetime
import json
import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from keras_quasiattn.files import rewrite
from keras_quasiattn.training.run_folder import RunFolder


def result_row(folder: RunFolder, split: str, figures: Mapping[str, Any]) -> dict[str, Any]:
    """Make a results row: figures of a finished run, with its command, seed, options and machine.

    Args:
        folder: the finished run.
        split: the part of the data on which the figures were measured.
        figures: the measured figures by name.

    Returns:
        A JSON-serializable row. `seconds` is the time of training and validation, including
        start-up and compilation in the first period.
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
        "date": datetime.date.today().isoformat(),
        "command": folder.config["command"],
    }


def append_result(file: str | Path, row: Mapping[str, Any]) -> None:
    """Append a row to a JSON Lines file, atomically, even while other processes append to it.

    Raises:
        UserError: the file cannot be written.
    """
    rewrite(Path(file), lambda rows: f"{rows}{json.dumps(dict(row))}\n")
