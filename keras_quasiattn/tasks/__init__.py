"""The tasks: each has its data, tokenizer, models, metrics and presets."""

from keras_quasiattn.errors import UserError
from keras_quasiattn.extras import needs, require

with needs("tasks"):
    from keras_quasiattn.tasks.preset import Preset
    from keras_quasiattn.tasks.settings import TrainingSettings
    from keras_quasiattn.tasks.task import ServingSignature, Task
    from keras_quasiattn.tasks.tokenized_texts import TokenizedTexts

__all__ = [
    "Preset",
    "ServingSignature",
    "Task",
    "TokenizedTexts",
    "TrainingSettings",
    "available",
    "get",
]

# Name to "module:class". `get` imports the module on demand, since some modules import a lot.
_TASKS: dict[str, str] = {
    "classify": "keras_quasiattn.tasks.classify:Classify",
    "mlu": "keras_quasiattn.tasks.mlu:Mlu",
    "pairs": "keras_quasiattn.tasks.pairs:Pairs",
    "programs": "keras_quasiattn.tasks.programs:Programs",
    "rank": "keras_quasiattn.tasks.rank:Rank",
    "read": "keras_quasiattn.tasks.read:Read",
    "translate": "keras_quasiattn.tasks.translate:Translate",
}


def available() -> tuple[str, ...]:
    """The names of all tasks, in alphabetical order."""
    return tuple(sorted(_TASKS))


def get(name: str) -> type[Task]:
    """The task class with this name.

    Raises:
        UserError: there is no such task; the message lists the known names.
    """
    if name not in _TASKS:
        raise UserError.unknown("task", name, _TASKS)
    module, _, attribute = _TASKS[name].partition(":")
    return getattr(require(module, "tasks"), attribute)
