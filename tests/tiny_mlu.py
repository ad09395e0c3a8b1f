"""The arithmetic task with a model and data so small that it trains in seconds."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tiny
import warm

ROOT = Path(__file__).parents[1]

OVERRIDES: dict[str, Any] = {
    "data.low": -20,
    "data.high": 20,
    "data.validation_examples": 64,
    "model.hidden_dim": 32,
    "model.intermediate_dim": 32,
    "model.num_layers": 1,
    "training.steps": 20,
    "training.batch_size": 32,
    "training.checkpoint_every": 10,
    "training.warmup_steps": 5,
    "training.jit_compile": False,
}
QUESTION = "x=19,y=-20,y+x"
COMMAND = (sys.executable, "-c", "import sys, quasiattn; sys.exit(quasiattn.main())")


def make(data_dir: Path, model: str = "coda", preset: str = "demo", **overrides: Any) -> Any:
    """Return the task; `model__dropout=0.1` sets the option model.dropout."""
    settings = {**OVERRIDES, **tiny.dotted(overrides)}
    return tiny.make("mlu", model, data_dir, settings, preset=preset)


def settings(**overrides: Any) -> list[str]:
    """Return the same options for the command line."""
    return arguments({**OVERRIDES, **tiny.dotted(overrides)})


def arguments(options: Mapping[str, Any]) -> list[str]:
    """Return the arguments of a command that set these options."""
    return [f"--set={name}={value}" for name, value in options.items()]


def environment() -> dict[str, str]:
    """Return the environment of a fresh process that finds the package in this source tree."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("TF_CPP_MIN_LOG_LEVEL")
    }
    return {**kept, "PYTHONPATH": str(ROOT)}


def quasiattn(*arguments: str | bytes, **options: Any) -> subprocess.CompletedProcess[bytes]:
    """Run the command as a user does, in a fresh process."""
    usual = {"env": environment(), "capture_output": True, "timeout": 240}
    return subprocess.run([*COMMAND, *arguments], **{**usual, **options})


def warm_quasiattn(*arguments: str | bytes, **options: Any) -> subprocess.CompletedProcess[bytes]:
    """Run the same, with the options of `warm.run`, in a process that has imported TensorFlow."""
    return warm.run([*COMMAND, *arguments], **{"env": environment(), **options})


def contents(folder: Path) -> dict[str, tuple[int, bytes | None]]:
    """Return everything in a folder: names, modification times and bytes."""
    return {
        str(path.relative_to(folder)): (
            path.stat().st_mtime_ns,
            path.read_bytes() if path.is_file() else None,
        )
        for path in sorted(folder.rglob("*"))
        if path.name != ".lock"
    }
