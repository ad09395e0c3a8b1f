"""The tasks: each has its data, tokenizer, models, metrics and presets."""

from typing import TYPE_CHECKING

from keras_quasiattn.errors import UserError
from keras_quasiattn.extras import lazy_attributes, require
from keras_quasiattn.lab.tasks.catalogue import CATALOGUE, Entry
from keras_quasiattn.lab.tasks.preset import Preset, TrainingSettings

if TYPE_CHECKING:
    from keras_quasiattn.lab.tasks.task import ServingSignature, Task, TokenizedTexts

__all__ = [
    "Preset",
    "ServingSignature",
    "Task",
    "TokenizedTexts",
    "TrainingSettings",
    "available",
    "describe",
    "get",
]
__getattr__ = lazy_attributes(
    __name__, dict.fromkeys(("ServingSignature", "Task", "TokenizedTexts"), "task"), extra="tasks"
)

# Name to "module:class". `get` imports the module on demand, since some modules import a lot.
_TASKS: dict[str, str] = {name: entry.location for name, entry in CATALOGUE.items()}


def available() -> tuple[str, ...]:
    """Return the names of all tasks, in alphabetical order."""
    return tuple(sorted(_TASKS))


def describe(name: str) -> "Entry | type[Task]":
    """Return the `summary`, `models`, `presets`, … of a task, without importing Keras.

    Raises:
        UserError: there is no such task; the message lists the known names.
    """
    return CATALOGUE[name] if name in CATALOGUE else get(name)


def get(name: str) -> "type[Task]":
    """Return the task class with this name.

    Raises:
        UserError: there is no such task; the message lists the known names.
    """
    UserError.check("task", name, _TASKS)
    module, _, attribute = _TASKS[name].partition(":")
    return getattr(require(module, "tasks"), attribute)
