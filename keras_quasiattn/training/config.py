"""What fixes a run: what its config.json holds, and what has to stay the same from one start to the next."""

from collections.abc import Mapping
from typing import Any

from keras_quasiattn.tasks import Task


def identity(task: Task, options: Mapping[str, Any]) -> dict[str, Any]:
    """What has to stay the same from one start of a run to the next."""
    return {"task": task.name, "task_config": task.config(), "options": dict(options)}


def is_whole(config: Mapping[str, Any]) -> bool:
    """Whether a config read from a file has what `identity` wrote."""
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
    """The values of `identity` by the names that a user gives them."""
    task_config = config["task_config"]
    named = {name: value for name, value in task_config.items() if name != "options"}
    return {"task": config["task"], **named, **task_config["options"], **config["options"]}
