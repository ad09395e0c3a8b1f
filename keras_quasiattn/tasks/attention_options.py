"""How a task's options say which attention its model uses."""

from collections.abc import Mapping
from typing import Any

from keras_quasiattn.errors import UserError
from keras_quasiattn.layers.shared.mechanisms import MECHANISMS, MULTI_HEAD_LAYERS

# Of a model that takes any attention: its name, and the arguments of it that are not left as they are.
ATTENTION_OPTIONS: Mapping[str, Any] = {"attention": "softmax", "attention_options": {}}
# Of a model that is one of CoDA.
CODA_OPTIONS: Mapping[str, Any] = {
    "coda_alpha": 1.0,
    "coda_beta": 1.0,
    # Both are weights then, one of each a head, that start at 1.
    "coda_learned": False,
    "coda_scaling": "mean",
    "coda_gate_range": "scaled",
    "coda_similarity": "tanh",
    "coda_gate": "sigmoid",
    "coda_center_similarity": False,
}


def attention_of(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """A model's options without those of its attention, and the arguments of a model that takes any attention.

    A model either has `ATTENTION_OPTIONS`, or options that begin with the name of its attention, as `CODA_OPTIONS` do.

    Raises:
        UserError: a temperature other than 1 where the temperatures are learned.

    >>> attention_of({"units": 8, "coda_gate": "tanh"})
    ({'units': 8}, {'attention': 'coda', 'attention_options': {'gate': 'tanh'}})
    >>> attention_of({"units": 8, "attention": "softmax", "attention_options": {}})
    ({'units': 8}, {'attention': 'softmax', 'attention_options': None})
    """
    others = dict(options)
    if "attention" in others:
        name, arguments = others.pop("attention"), others.pop("attention_options")
        return others, {"attention": name, "attention_options": dict(arguments) or None}
    for name in MECHANISMS.keys() | MULTI_HEAD_LAYERS.keys():
        own = [option for option in options if option.startswith(f"{name}_")]
        if own:
            arguments = {option.removeprefix(f"{name}_"): others.pop(option) for option in own}
            return others, {"attention": name, "attention_options": _with_learned(name, arguments)}
    return others, {}


def _with_learned(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments with both temperatures "learned" where the option `learned` is true."""
    if arguments.pop("learned", False):
        for temperature in ("alpha", "beta"):
            if arguments[temperature] != 1:
                raise UserError(
                    f"model.{name}_{temperature} is {arguments[temperature]!r}: "
                    f"it must be 1, where learning starts, while model.{name}_learned is true"
                )
            arguments[temperature] = "learned"
    return arguments
