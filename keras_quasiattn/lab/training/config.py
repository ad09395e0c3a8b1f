"""The config of a run, `config.json`, and the part of it that must never change."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from keras_quasiattn._version import __version__
from keras_quasiattn.errors import UserError
from keras_quasiattn.files import read_json
from keras_quasiattn.lab.tasks.attention_options import with_todays_names

if TYPE_CHECKING:
    from keras_quasiattn.lab.tasks import Task

FORMAT: Final = 1
CONFIG: Final = "config.json"
# Names that the command line completes without Keras.
POLICIES = ("float32", "mixed_float16", "mixed_bfloat16")
STRATEGIES = ("one", "mirrored", "multi-worker")
METHODS = ("random", "bayesian", "hyperband")


def read_config(path: Path) -> dict[str, Any]:
    """Read the config of the run in a folder, without Keras."""
    if not path.is_dir():
        state = "is not a folder" if path.exists() else "does not exist"
        raise UserError(f"{path} {state}: name the folder of a training run")
    file = path / CONFIG
    if not file.exists():
        raise UserError(f"{path} is not a run folder: it has no {CONFIG}")
    config = read_json(file)
    written = config.get("format")
    if isinstance(written, int) and written > FORMAT:
        raise UserError(
            f"{path} has format {written} and this version ({__version__}) "
            f"reads up to {FORMAT}: use a newer keras_quasiattn"
        )
    if not isinstance(written, int) or not _is_complete(config):
        raise UserError(f"{file} is damaged: it is not the config of a training run")
    task_config = config["task_config"]
    task_config["options"] = with_todays_names(task_config["options"])
    return config


def identity(task: "Task", options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of the config that must be the same at every start of a run."""
    return {"task": task.name, "task_config": task.config(), "options": dict(options)}


def _is_complete(config: Mapping[str, Any]) -> bool:
    """Return whether a config from a file has the entries that `RunFolder.create` writes."""
    task_config, options = config.get("task_config"), config.get("options")
    return (
        all(isinstance(config.get(name), str) for name in ("task", "command"))
        and all(isinstance(config.get(name, {}), dict) for name in ("versions", "data"))
        and "versions" in config
        and isinstance(options, dict)
        and isinstance(task_config, dict)
        and isinstance(task_config.get("options"), dict)
        and task_config.keys() >= {"preset", "model", "seed"}
    )


def part_name(split: str, limit: int | None) -> str:
    """Return the name of a split in metrics and records; with `limit`, of its first examples."""
    return split if limit is None else f"{split}, first {limit}"


def flat(config: Mapping[str, Any]) -> dict[str, Any]:
    """Flatten `identity` to one dictionary, with the option names that a user sets."""
    task_config = config["task_config"]
    named = {name: value for name, value in task_config.items() if name != "options"}
    options = without_steps(config["options"])
    return {"task": config["task"], **named, **task_config["options"], **options}


def without_steps(options: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out the updates of the task's schedule in a given optimizer: they are an option."""
    rate = options.get("optimizer.learning_rate")
    if not isinstance(rate, dict) or rate.get("class_name") != "WarmupSchedule":
        return dict(options)
    settings = {name: value for name, value in rate["config"].items() if name != "steps"}
    return {**options, "optimizer.learning_rate": {**rate, "config": settings}}
