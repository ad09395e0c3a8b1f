"""How a CoDA weight is composed of a similarity and a gate: M = similarity(E) * gate(N)."""

import dataclasses
from collections.abc import Callable
from typing import Any

from keras import ops

from keras_quasiattn.ops.elementwise import arctan, tanh

Tensor = Any


def _algebraic(x: Tensor) -> Tensor:
    # x / sqrt(1 + x²) without overflow of x²: float32 distances of 1e20 are still within range.
    large = ops.where(ops.abs(x) > 1, ops.abs(x), ops.ones_like(x))
    return (x / large) / ops.sqrt(ops.square(1 / large) + ops.square(x / large))


SIMILARITIES: dict[str, Callable[[Tensor], Tensor]] = {"tanh": tanh, "sigmoid": ops.sigmoid}
GATES: dict[str, Callable[[Tensor], Tensor]] = {
    "sigmoid": ops.sigmoid,
    "tanh": tanh,
    "arctan": arctan,
    "algebraic": _algebraic,
}
GATE_RANGES = ("scaled", "centered", "raw")


def check_choice(value: Any, choices: Any, name: str) -> None:
    """Raises a `ValueError` that names the argument, what came, and the choices."""
    if value not in tuple(choices):
        expected = ", ".join(repr(choice) for choice in choices)
        raise ValueError(f"`{name}` must be one of {expected}. Received: {name}={value!r}")


@dataclasses.dataclass(frozen=True)
class Composition:
    """The choices of eqs. 3–6 of the CoDA paper and of its ablation.

    Args:
        similarity: "tanh" or "sigmoid", applied to E.
        gate: "sigmoid", "tanh", "arctan" or "algebraic" (x/√(1+x²)), applied to N.
        gate_range: "scaled" doubles a sigmoid gate, so that it spans 0 … 1 (eq. 5), and leaves the others as
            they are; "centered" subtracts the mean of N (eq. 4); "raw" does neither.
        center_similarity: subtract the mean of E (eq. 6).

    Raises:
        ValueError: an option has an unknown value.
    """

    similarity: str = "tanh"
    gate: str = "sigmoid"
    gate_range: str = "scaled"
    center_similarity: bool = False

    def __post_init__(self) -> None:
        check_choice(self.similarity, SIMILARITIES, "similarity")
        check_choice(self.gate, GATES, "gate")
        check_choice(self.gate_range, GATE_RANGES, "gate_range")
        check_choice(self.center_similarity, (False, True), "center_similarity")

    @property
    def center_gate(self) -> bool:
        """Whether N loses its mean."""
        return self.gate_range == "centered"

    @property
    def uses_means(self) -> bool:
        """Whether a weight depends on other pairs than its own."""
        return self.center_gate or self.center_similarity

    @property
    def doubles_gate(self) -> bool:
        """Whether the gate is 2·sigmoid(N)."""
        return self.gate == "sigmoid" and self.gate_range == "scaled"

    @property
    def labels(self) -> tuple[str, str]:
        """The two factors of M in the paper's letters."""
        return f"{self.similarity}(E)", f"{'2·' if self.doubles_gate else ''}{self.gate}(N)"

    def factors(self, similarity: Tensor, negative_distance: Tensor) -> tuple[Tensor, Tensor]:
        """Of E and N, both already centred where that is asked for, the two whose product is M; all of one shape."""
        gate = GATES[self.gate](negative_distance)
        return SIMILARITIES[self.similarity](similarity), 2 * gate if self.doubles_gate else gate

    def weights(self, similarity: Tensor, negative_distance: Tensor) -> Tensor:
        """M from E and N, as `factors` takes them."""
        similarity, gate = self.factors(similarity, negative_distance)
        return similarity * gate
