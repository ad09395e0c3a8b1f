"""Factors of scores and distances: numbers, or learned weights."""

import math
import numbers
from typing import Any, Literal, cast

import keras

Factor = float | Literal["learned"]


def check_factor(value: Factor, name: str) -> Factor:
    """Return `value`; raise a `ValueError` unless it is a finite number ≥ 0 or "learned"."""
    if isinstance(value, str) and value == "learned":
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
    """Add a float32 weight ≥ 0 of `shape`, initially 1, for each value that is "learned"."""
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
