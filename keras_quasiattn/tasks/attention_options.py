"""CoDA's options as a task's models have them."""

from collections.abc import Mapping
from typing import Any

from keras_quasiattn.errors import UserError

_PREFIX = "coda_"
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
    """A model's options without CoDA's, and those as the arguments of a model that takes any attention.

    Raises:
        UserError: a temperature other than 1 where the temperatures are learned.

    >>> attention_of({"units": 8, "coda_gate": "tanh"})
    ({'units': 8}, {'attention': 'coda', 'attention_options': {'gate': 'tanh'}})
    >>> attention_of({"units": 8})
    ({'units': 8}, {'attention': 'softmax'})
    """
    coda = {name.removeprefix(_PREFIX): value for name, value in options.items() if name.startswith(_PREFIX)}
    others = {name: value for name, value in options.items() if not name.startswith(_PREFIX)}
    if coda.pop("learned", False):
        for name in ("alpha", "beta"):
            if coda[name] != 1:
                raise UserError(
                    f"model.{_PREFIX}{name} is {coda[name]!r}: "
                    f"it must be 1, where learning starts, while model.{_PREFIX}learned is true"
                )
            coda[name] = "learned"
    return others, {"attention": "coda", "attention_options": coda} if coda else {"attention": "softmax"}
