"""Values of any types as what KerasTuner takes: texts, integers or floats, one type at a time."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from keras_quasiattn.errors import UserError


def choices_of(name: str, values: Iterable[Any]) -> dict[Any, Any]:
    """Returns the values by what stands for each in KerasTuner.

    KerasTuner's `Choice` has one type and takes booleans for integers. Texts, integers or floats
    among themselves stand for themselves, and numbers of both kinds become floats, so that their
    order is known. Anything else is named by its JSON.

    Args:
        name: whose values these are, for errors.
        values: texts, numbers, booleans, None, or lists and dictionaries of them.

    Raises:
        UserError: there is no value, or one that JSON cannot hold.

    >>> choices_of("alpha", [1.5, "learned"])
    {'1.5': 1.5, '"learned"': 'learned'}
    >>> choices_of("heads", [1, 2]), choices_of("clip_norm", [2, 0.5])
    ({1: 1, 2: 2}, {2.0: 2, 0.5: 0.5})
    """
    if isinstance(values, str | Mapping) or not isinstance(values, Iterable):
        raise UserError(f"the values of {name} are {values!r}: give a list with at least one")
    plain = [value.item() if isinstance(value, np.generic) else value for value in values]
    if not plain:
        raise UserError(f"the values of {name} are []: give a list with at least one")
    kinds = set(map(type, plain))
    if len(kinds) == 1 and kinds <= {str, int, float}:
        return {value: value for value in plain}
    if kinds == {int, float}:
        return {float(value): value for value in plain}
    return {_as_json(name, value): value for value in plain}


def _as_json(name: str, value: Any) -> str:
    try:
        return json.dumps(value)
    except (TypeError, ValueError):
        raise UserError(
            f"{value!r} is among the values of {name}: give texts, numbers, booleans or None"
        ) from None
