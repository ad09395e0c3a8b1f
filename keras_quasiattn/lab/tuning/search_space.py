"""The values that a search tries for each option of a task."""

from collections.abc import Mapping, Sequence
from typing import Any

from keras_quasiattn.attention.base import ATTENTIONS
from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.tasks import Task
from keras_quasiattn.tuning.attention_space import choices_of

# The papers' values, where they give any: GA-Net (Xue et al. 2019, "Text Classification"); the
# differences of Conflict (Mitra 2019, section 5).
_CHOICES: Mapping[str, Sequence[Any]] = {
    "training.learning_rate": (1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2),
    "training.batch_size": (8, 16, 32, 64, 128),
    "model.gate_temperature": (0.5, 1.0, 1.5, 2.0),
    "model.gate_cost": (0.4e-5, 0.5e-5, 1e-5, 0.4e-4, 0.5e-4, 1e-4, 1e-3),
    "model.num_heads": (1, 2, 4, 8),
    "model.difference": ("absolute", "squared", "signed"),
}


def search_space(task: Task, wanted: Mapping[str, str] | None = None) -> dict[str, list[Any]]:
    """Return the options to search, each with a list of values of its type.

    Args:
        task: the task whose options to search.
        wanted: comma-separated values by dotted option name; the search uses only these options.
            None (the default) uses the options of the task's model for which a paper or the model's
            attention proposes values. The options of the attention are entries of
            `model.attention_options`, such as "model.attention_options.alpha".

    Raises:
        UserError: the task does not have an option, a value has the wrong type, an option has fewer
            than two values, or there is nothing to search.

    Example:
    >>> from keras_quasiattn.lab import tasks
    >>> task = tasks.get("mlu")(preset="demo", model="coda", seed=0, data_dir="data")
    >>> search_space(task, {"model.num_layers": "1,2"})
    {'model.num_layers': [1, 2]}
    """
    options = task.options.options()
    if wanted is None:
        space = {option: list(values) for option, values in _CHOICES.items() if option in options}
        space |= _of_attention(options)
    else:
        space = {option: _values(task, option, text) for option, text in wanted.items()}
    if not space:
        raise UserError(
            f"there is nothing to search: task {task.name} has none of {', '.join(_CHOICES)}"
        )
    return space


def _of_attention(options: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return the options of the model's attention, with the values that the attention proposes."""
    chosen = options.get("model.attention")
    if chosen not in ATTENTIONS:
        return {}
    proposed = ATTENTIONS[chosen].options_class.search_space
    return {f"model.attention_options.{name}": list(values) for name, values in proposed.items()}


def _values(task: Task, option: str, text: str) -> list[Any]:
    values = []
    for part in text.split(","):
        try:
            values.append(task.options.with_overrides({option: part.strip()})[option])
        except UserError as error:
            raise UserError(f"--try {option}={text}: {error}") from None
    if len(choices_of(option, values)) < 2:
        raise UserError(f"--try {option}={text}: give at least two values, separated by commas")
    return values
