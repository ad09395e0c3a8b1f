"""The CoDA weight matrix M = similarity(E) ⊙ gate(N): its options, definition, derivatives."""

import dataclasses
from collections.abc import Callable
from typing import Any

from keras import ops

from keras_quasiattn.attention.coda import calibration
from keras_quasiattn.core import recording
from keras_quasiattn.core.backend import arctan, tanh
from keras_quasiattn.core.l1 import pairwise_l1
from keras_quasiattn.core.masks import (
    causal_mask,
    combine_masks,
    masked_mean,
    pair_mask,
    without_padded_rows,
    zero_masked,
)
from keras_quasiattn.core.score_bias import add_score_bias
from keras_quasiattn.core.tensors import as_dtype, check_choice, compute_dtype, dot_products

Tensor = Any


def _algebraic(x: Tensor) -> Tensor:
    # x / sqrt(1 + x²) without computing x², which overflows for float32 distances of 1e20.
    large = ops.where(ops.abs(x) > 1, ops.abs(x), ops.ones_like(x))
    return (x / large) / ops.sqrt(ops.square(1 / large) + ops.square(x / large))


def _algebraic_derivative(x: Tensor, y: Tensor) -> Tensor:
    # (1 + x²)^(−3/2) as the cube of a reciprocal: nothing overflows before x² does.
    reciprocal = 1 / ops.sqrt(1 + ops.square(x))
    return reciprocal * reciprocal * reciprocal


SIMILARITIES: dict[str, Callable[[Tensor], Tensor]] = {"tanh": tanh, "sigmoid": ops.sigmoid}
GATES: dict[str, Callable[[Tensor], Tensor]] = {
    "sigmoid": ops.sigmoid,
    "tanh": tanh,
    "arctan": arctan,
    "algebraic": _algebraic,
}
GATE_RANGES = ("scaled", "centered", "raw")

_FUNCTIONS = {**SIMILARITIES, **GATES, "identity": lambda x: x}
# Derivatives from x and y = function(x), so that y is not computed again.
_DERIVATIVES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "tanh": lambda x, y: 1 - ops.square(y),
    "sigmoid": lambda x, y: y * (1 - y),
    "arctan": lambda x, y: 1 / (1 + ops.square(x)),
    "algebraic": _algebraic_derivative,
    "identity": lambda x, y: ops.ones_like(x),
}


@dataclasses.dataclass(frozen=True)
class Composition:
    """The options of eqs. 3–6 of the CoDA paper and of its ablation, as in `ops.coda_attention`."""

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
        """Return whether the mean of N is subtracted."""
        return self.gate_range == "centered"

    @property
    def uses_means(self) -> bool:
        """Return whether a weight depends on other pairs, through a mean."""
        return self.center_gate or self.center_similarity

    @property
    def doubles_gate(self) -> bool:
        """Return whether the gate is 2·sigmoid(N)."""
        return self.gate == "sigmoid" and self.gate_range == "scaled"

    @property
    def labels(self) -> tuple[str, str]:
        """Return the two factors of M in the paper's notation."""
        return f"{self.similarity}(E)", f"{'2·' if self.doubles_gate else ''}{self.gate}(N)"

    def factors(self, similarity: Tensor, negative_distance: Tensor) -> tuple[Tensor, Tensor]:
        """Return the factors of M from E and N of one shape, already centred if they must be."""
        gate = GATES[self.gate](negative_distance)
        return SIMILARITIES[self.similarity](similarity), 2 * gate if self.doubles_gate else gate


@dataclasses.dataclass(frozen=True)
class Pairs:
    """Two sequences, and the options by which each pair of positions gets its weight.

    The options are as for `ops.coda_attention`. `query` and `key` are what E compares, F_E in the
    paper, `distance_query` (..., T, F) and `distance_key` (..., S, F) what the distance compares,
    F_N. `mask` broadcasts to (..., T, S); `row_mask` (..., T) and `key_mask` (..., S) hide
    positions. With `mean_per_query`, means are over the keys of each query.
    """

    query: Tensor
    key: Tensor
    distance_query: Tensor
    distance_key: Tensor
    composition: Composition
    alpha: float | Tensor = 1.0
    beta: float | Tensor = 1.0
    bias: Tensor | None = None
    mask: Tensor | None = None
    row_mask: Tensor | None = None
    key_mask: Tensor | None = None
    is_causal: bool = False
    mean_per_query: bool = False
    dropout: float = 0.0
    dropout_seed: Tensor | None = None

    def weights(self, distances: str = "reference") -> Tensor:
        """Return M = similarity(E) ⊙ gate(N), (..., T, S), 0 where masked, before dropout.

        `distances` is the `implementation` of `pairwise_l1`. M is float64 if all inputs are,
        otherwise float32.
        """
        dtype = compute_dtype(self.query, self.key, self.distance_query, self.distance_key)
        products = ops.cast(dot_products(self.query, self.key), dtype)  # (..., T, S)
        distance = pairwise_l1(self.distance_query, self.distance_key, implementation=distances)
        distance = ops.cast(distance, dtype)  # (..., T, S)
        seen = causal_mask(*ops.shape(products)[-2:]) if self.is_causal else None
        mask = combine_masks(self.mask, pair_mask(self.row_mask, self.key_mask), seen)
        alpha, beta = self.alpha, self.beta
        observe = calibration.observe.get()
        if observe is not None:
            alpha, beta = observe(products, distance, without_padded_rows(mask, products))
        negative_distance = as_dtype(beta, dtype) * -distance  # N
        similarity = as_dtype(alpha, dtype) * products
        if self.bias is not None:
            similarity = add_score_bias(similarity, self.bias, mask)  # E
        # Means are (..., T, 1) per query, or (..., 1, 1).
        mean_axis = -1 if self.mean_per_query else (-2, -1)
        if self.composition.center_similarity:
            similarity = similarity - masked_mean(similarity, mask, mean_axis)
        if self.composition.center_gate:
            negative_distance = negative_distance - masked_mean(negative_distance, mask, mean_axis)

        similarity, gate = self.composition.factors(similarity, negative_distance)
        weights = zero_masked(similarity * gate, mask)
        if recording.active.get() is not None:
            similarity_label, gate_label = self.composition.labels
            recording.record("similarity", similarity, mask, similarity_label)
            recording.record("gate", gate, mask, gate_label)
            recording.record("weights", weights, mask, "M")
            weights = recording.edited(weights, mask)
        return weights


@dataclasses.dataclass(frozen=True)
class WeightRule:
    """M = scale · similarity(E) · gate(N), with functions given by name, and its derivatives.

    A name of None means that M does not depend on E or N; `scale` is 2 for a doubled sigmoid gate.
    """

    similarity: str | None
    gate: str | None
    scale: int = 1

    @classmethod
    def of(cls, composition: Composition) -> "WeightRule":
        """Return the rule of `composition`, for E and N that are already centred."""
        return cls(composition.similarity, composition.gate, 2 if composition.doubles_gate else 1)

    def weights(self, similarity: Tensor | None, negative_distance: Tensor | None) -> Tensor:
        """Return M from E and N; pass None for what the rule does not use."""
        left, right = _apply(self.similarity, similarity), _apply(self.gate, negative_distance)
        return self._product(left, right)

    def derivatives(
        self, similarity: Tensor | None, negative_distance: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Return dM/dE and dM/dN; None for what the rule does not use."""
        left, right = _apply(self.similarity, similarity), _apply(self.gate, negative_distance)
        by_similarity = by_negative_distance = None
        if self.similarity:
            by_similarity = self._product(_DERIVATIVES[self.similarity](similarity, left), right)
        if self.gate:
            slope = _DERIVATIVES[self.gate](negative_distance, right)
            by_negative_distance = self._product(left, slope)
        return by_similarity, by_negative_distance

    def _product(self, left: Tensor | None, right: Tensor | None) -> Tensor:
        product: Tensor = right if left is None else left if right is None else left * right
        return product if self.scale == 1 else self.scale * product


def _apply(name: str | None, x: Tensor | None) -> Tensor | None:
    return _FUNCTIONS[name](x) if name else None
