"""The config of a run: what `config.json` holds, and which part of it must never change."""

from collections.abc import Mapping
from typing import Any

from keras_quasiattn.tasks import Task


def identity(task: Task, options: Mapping[str, Any]) -> dict[str, Any]:
    """The part of the config that must be the same at every start of a run."""
    return {"task": task.name, "task_config": task.config(), "options": dict(options)}


def is_complete(config: Mapping[str, Any]) -> bool:
    """Whether a config that was read from a file has the entries that `RunFolder.create` writes."""
    task_config, options = config.get("task_config"), config.get("options")
    return (
        all(isinstance(config.get(name), str) for name in ("task", "command"))
        and isinstance(config.get("versions"), dict)
        and isinstance(options, dict)
        and isinstance(task_config, dict)
        and isinstance(task_config.get("options"), dict)
        and task_config.keys() >= {"preset", "model", "seed"}
    )


def flat(config: Mapping[str, Any]) -> dict[str, Any]:
    """Flatten `identity` to one dictionary, with the option names that a user sets."""
    task_config = config["task_config"]
    named = {name: value for name, value in task_config.items() if name != "options"}
    return {"task": config["task"], **named, **task_config["options"], **config["options"]}
