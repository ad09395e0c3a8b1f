"""α and β, the temperatures of a CoDA layer, and their scaling by the number of features."""

import math
import numbers
from typing import Any, Literal, cast

import keras

from keras_quasiattn.ops.checks import check_choice

Temperature = float | Literal["learned"]


def check_temperature(value: Temperature, name: str) -> Temperature:
    """Returns `value` if it is a finite number ≥ 0 or "learned".

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


def scaling_factor(scaling: str, features: int, paper: float) -> float:
    """Returns the factor of the similarity E and of the distance N.

    "mean": 1/features, which makes E a mean product and N a mean difference of features. For every
    number of features, tanh then starts where it is steep, and a sigmoid gate of unit normals at
    2·sigmoid(−1.13) ≈ 0.49. "paper": the factor in the mechanism's own equation. "none": 1.
    """
    check_choice(scaling, ("mean", "paper", "none"), "scaling")
    return {"mean": 1 / features, "paper": paper, "none": 1.0}[scaling]


def temperature_weights(
    layer: keras.layers.Layer, shape: tuple[int, ...], **values: Temperature
) -> dict[str, Any]:
    """Adds a weight for each of the named values that is "learned".

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


def temperature(value: Temperature, weight: Any | None, scale: float) -> Any:
    """Returns `scale` times the number, or times the weight if the temperature is learned."""
    return scale * cast(float, value) if weight is None else scale * weight
