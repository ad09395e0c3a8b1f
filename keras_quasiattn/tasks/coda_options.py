"""CoDA's options as a task's models have them."""

from collections.abc import Mapping
from typing import Any

_PREFIX = "coda_"
CODA_OPTIONS: Mapping[str, Any] = {
    "coda_scaling": "mean",
    "coda_gate_range": "scaled",
    "coda_similarity": "tanh",
    "coda_gate": "sigmoid",
    "coda_center_similarity": False,
}


def attention_of(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """A model's options without CoDA's, and those as the arguments of a model that takes any attention.

    >>> attention_of({"units": 8, "coda_gate": "tanh"})
    ({'units': 8}, {'attention': 'coda', 'attention_options': {'gate': 'tanh'}})
    >>> attention_of({"units": 8})
    ({'units': 8}, {'attention': 'softmax'})
    """
    coda = {name.removeprefix(_PREFIX): value for name, value in options.items() if name.startswith(_PREFIX)}
    others = {name: value for name, value in options.items() if not name.startswith(_PREFIX)}
    return others, {"attention": "coda", "attention_options": coda} if coda else {"attention": "softmax"}
