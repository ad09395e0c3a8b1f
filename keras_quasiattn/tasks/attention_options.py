"""The task options that choose and configure the attention of a model."""

from collections.abc import Mapping
from typing import Any

from keras_quasiattn.errors import UserError

# For models that take any attention: its name, and the arguments that differ from its defaults.
ATTENTION_OPTIONS: Mapping[str, Any] = {"attention": "softmax", "attention_options": {}}
# For models with CoDA.
CODA_OPTIONS: Mapping[str, Any] = {
    "coda_alpha": 1.0,
    "coda_beta": 1.0,
    # If true, α and β are trainable weights, one of each per head, that start at 1.
    "coda_learned": False,
    "coda_scaling": "mean",
    "coda_gate_range": "scaled",
    "coda_similarity": "tanh",
    "coda_gate": "sigmoid",
    "coda_center_similarity": False,
}


def attention_of(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Separate the attention options of a model from its other options.

    Returns the other options, and the arguments `attention` and `attention_options` of a model that
    takes any attention, or no arguments if the options name none. A model has either
    `ATTENTION_OPTIONS`, or options that start with the name of its attention, as `CODA_OPTIONS` do.

    Raises:
        UserError: the temperatures are learned, but one of them is not 1.

    >>> attention_of({"units": 8, "coda_gate": "tanh"})
    ({'units': 8}, {'attention': 'coda', 'attention_options': {'gate': 'tanh'}})
    >>> attention_of({"units": 8, "attention": "softmax", "attention_options": {}})
    ({'units': 8}, {'attention': 'softmax', 'attention_options': None})
    """
    from keras_quasiattn.attention.base import ATTENTIONS

    others = dict(options)
    if "attention" in others:
        name, arguments = others.pop("attention"), others.pop("attention_options")
        return others, {"attention": name, "attention_options": dict(arguments) or None}
    for name in ATTENTIONS:
        own = [option for option in options if option.startswith(f"{name}_")]
        if own:
            arguments = {option.removeprefix(f"{name}_"): others.pop(option) for option in own}
            return others, {"attention": name, "attention_options": _with_learned(name, arguments)}
    return others, {}


def _with_learned(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments, with both temperatures set to "learned" if the option `learned` is true."""
    if arguments.pop("learned", False):
        for temperature in ("alpha", "beta"):
            if arguments[temperature] != 1:
                raise UserError(
                    f"model.{name}_{temperature} is {arguments[temperature]!r}: "
                    f"it must be 1 when model.{name}_learned is true, because learning starts at 1"
                )
            arguments[temperature] = "learned"
    return arguments
