"""Factors of scores and distances: numbers, or learned weights."""

import math
import numbers
from typing import Any, Literal, cast

import keras

Factor = float | Literal["learned"]


def check_factor(value: Factor, name: str) -> Factor:
    """Return `value` if it is a finite number ≥ 0 or "learned".

    Otherwise it raises a `ValueError` that names the argument.
    """
    if value == "learned":
        return "learned"
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or value < 0:
        raise ValueError(
            f"`{name}` must be a finite number ≥ 0, or 'learned'. Received: {name}={value!r}"
        )
    return float(value)


def factor_weights(
    layer: keras.layers.Layer, shape: tuple[int, ...], **values: Factor
) -> dict[str, Any]:
    """Add a weight for each of the named values that is "learned".

    The weights have `shape`, start at 1 and are constrained to ≥ 0. Under 16-bit policies they stay
    float32: there are few of them, and their update steps are small.
    """
    return {
        name: layer.add_weight(
            shape=shape,
            initializer="ones",
            constraint=keras.constraints.NonNeg(),
            autocast=False,
            name=name,
        )
        for name, value in values.items()
        if value == "learned"
    }


def factor(value: Factor, weight: Any | None, scale: Any) -> Any:
    """Return `scale` times the number, or times the weight if the factor is learned."""
    return scale * cast(float, value) if weight is None else scale * weight
