"""Derivatives of a CoDA weight by E and by N, for backward passes that recompute tiles."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from keras import ops

from keras_quasiattn.ops.composition import GATES, SIMILARITIES, Composition

Tensor = Any


def derivative(name: str, x: Tensor, y: Tensor) -> Tensor:
    """D function(x) / dx of one of the similarities or gates, given x and y = function(x)."""
    if name == "tanh":
        return 1 - ops.square(y)
    if name == "sigmoid":
        return y * (1 - y)
    if name == "arctan":
        return 1 / (1 + ops.square(x))
    # algebraic: (1 + x²)^(−3/2), whose cube of a reciprocal does not overflow before the square does
    reciprocal = 1 / ops.sqrt(1 + ops.square(x))
    return reciprocal * reciprocal * reciprocal


@dataclasses.dataclass(frozen=True)
class WeightRule:
    """M = scale · similarity(E) · gate(N), by the names of the functions.

    Args:
        similarity: a name in `SIMILARITIES`, "identity", or None for 1.
        gate: a name in `GATES`, "identity", or None for 1.
        scale: 2 for a doubled sigmoid gate, else 1.
    """

    similarity: str | None
    gate: str | None
    scale: int = 1

    @classmethod
    def of(cls, composition: Composition) -> "WeightRule":
        """The rule that `composition` states, for E and N that are already centred."""
        return cls(composition.similarity, composition.gate, 2 if composition.doubles_gate else 1)

    def __call__(self, similarity: Tensor | None, negative_distance: Tensor | None) -> tuple[Tensor, ...]:
        """M, dM/dE and dM/dN; E or N is None where the rule does not use it."""
        given = negative_distance if similarity is None else similarity
        left, left_slope = _apply(SIMILARITIES, self.similarity, given)
        right, right_slope = _apply(
            GATES, self.gate, given if negative_distance is None else negative_distance
        )
        return self.scale * left * right, self.scale * left_slope * right, self.scale * left * right_slope


def _apply(
    functions: Mapping[str, Callable[[Tensor], Tensor]], name: str | None, x: Tensor
) -> tuple[Tensor, Tensor]:
    if name is None:
        return ops.ones_like(x), ops.zeros_like(x)
    if name == "identity":
        return x, ops.ones_like(x)
    y = functions[name](x)
    return y, derivative(name, x, y)
