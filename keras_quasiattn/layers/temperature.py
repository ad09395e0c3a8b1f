"""α and β, the temperatures of a CoDA layer, and how they are scaled by the number of features."""

import math
from typing import Literal

from keras_quasiattn.ops.composition import check_choice

Temperature = float | Literal["learned"]


def check_temperature(value: Temperature, name: str) -> Temperature:
    """Returns a finite number ≥ 0, or "learned"; anything else is a `ValueError` that names the argument."""
    if value == "learned":
        return "learned"
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or value < 0:
        raise ValueError(f"`{name}` must be a finite number ≥ 0, or 'learned'. Received: {name}={value!r}")
    return float(value)


def scales(scaling: str, features: int, paper: tuple[float, float]) -> tuple[float, float]:
    """The factors of the similarity E and of the distance N.

    "mean": 1/√features and 1/features, so that N is the mean difference of a feature and a sigmoid gate of
    unit normals starts at 2·sigmoid(−1.13) ≈ 0.49 whatever the size. "paper": the factors of the mechanism's
    own equation. "none": 1 and 1.
    """
    check_choice(scaling, ("mean", "paper", "none"), "scaling")
    return {"mean": (features**-0.5, 1 / features), "paper": paper, "none": (1.0, 1.0)}[scaling]
