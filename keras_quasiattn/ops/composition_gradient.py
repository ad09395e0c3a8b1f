"""Derivatives of a CoDA weight by E and by N, for backward passes that recompute tiles."""

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


def weights_and_derivatives(
    composition: Composition, similarity: Tensor, negative_distance: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """M, dM/dE and dM/dN at E and N, both already centred where that is asked for."""
    scale = 2 if composition.gate == "sigmoid" and composition.gate_range == "scaled" else 1
    left = SIMILARITIES[composition.similarity](similarity)
    right = GATES[composition.gate](negative_distance)
    left_slope = derivative(composition.similarity, similarity, left)
    right_slope = derivative(composition.gate, negative_distance, right)
    return scale * left * right, scale * left_slope * right, scale * left * right_slope
