"""The attentions that a layer over two sequences can be told to use: their options, weights and computation."""

import dataclasses
from typing import Any, ClassVar

import keras

from keras_quasiattn import ops
from keras_quasiattn.layers.temperature import (
    Temperature,
    check_temperature,
    scales,
    temperature,
    temperature_weights,
)
from keras_quasiattn.ops.choice import IMPLEMENTATIONS
from keras_quasiattn.ops.composition import Composition, check_choice

Tensor = Any


@dataclasses.dataclass
class SoftmaxOptions:
    """Softmax of dot products; it has no options."""

    # Whether features are subtracted from each other: dropout before that would be a distance between equal words, and
    # both sequences need one projection.
    compares_by_distance: ClassVar[bool] = False
    # Matrices of weights that `pair` gives.
    pair_score_count: ClassVar[int] = 2

    def make_weights(self, layer: keras.layers.Layer) -> dict[str, Any]:
        """Nothing is learned."""
        return {}

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        *,
        learned: dict[str, Any],
        scale: float = 1.0,
        center_per_query: bool = False,
        training: bool | None = None,
        return_scores: bool = False,
    ) -> Any:
        """What every query finds.

        Args:
            query: (B, T, D).
            key: (B, S, D).
            value: (B, S, V).
            mask: boolean, broadcasts to (B, T, S), or None.
            learned: what `make_weights` gave.
            scale: factor of the dot products, where the mechanism has no factors of its own.
            center_per_query: means are over a query's own keys, where the mechanism takes any.
            training: whether this is a step of training.
            return_scores: also return the weights (B, T, S).
        """
        return ops.softmax_attention(query, key, value, mask, scale=scale, return_scores=return_scores)

    def pair(
        self,
        a: Tensor,
        b: Tensor,
        mask_a: Tensor | None,
        mask_b: Tensor | None,
        *,
        learned: dict[str, Any],
        training: bool | None = None,
        **options: Any,
    ) -> tuple[Tensor, ...]:
        """Aligns a and b to each other, as `ops.alignment_pair`, which has the further options."""
        return ops.alignment_pair(a, b, mask_a, mask_b, **options)


@dataclasses.dataclass
class CoDAOptions:
    """Arguments of `layers.CoDA` from `alpha` on, checked; each means what it means there."""

    compares_by_distance: ClassVar[bool] = True
    pair_score_count: ClassVar[int] = 1

    alpha: Temperature = 1.0
    beta: Temperature = 1.0
    scaling: str = "mean"
    similarity: str = "tanh"
    gate: str = "sigmoid"
    gate_range: str = "scaled"
    center_similarity: bool = False
    implementation: str = "auto"

    def __post_init__(self) -> None:
        self.alpha = check_temperature(self.alpha, "alpha")
        self.beta = check_temperature(self.beta, "beta")
        scales(self.scaling, 1, paper=(1.0, 1.0))
        Composition(self.similarity, self.gate, self.gate_range, self.center_similarity)
        check_choice(self.implementation, IMPLEMENTATIONS, "implementation")

    def make_weights(self, layer: keras.layers.Layer) -> dict[str, Any]:
        """α and β of `layer` where they are learned."""
        return temperature_weights(layer, (), alpha=self.alpha, beta=self.beta)

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        *,
        learned: dict[str, Any],
        scale: float = 1.0,
        **options: Any,
    ) -> Any:
        """What every query finds, as `ops.coda_attention`, which has the further options."""
        arguments = self._arguments(learned, query.shape[-1])
        return ops.coda_attention(query, key, value, mask, **arguments, **options)

    def pair(
        self,
        a: Tensor,
        b: Tensor,
        mask_a: Tensor | None,
        mask_b: Tensor | None,
        *,
        learned: dict[str, Any],
        **options: Any,
    ) -> tuple[Tensor, ...]:
        """Aligns a and b to each other, as `ops.coda_pair`, which has the further options."""
        return ops.coda_pair(a, b, mask_a, mask_b, **self._arguments(learned, a.shape[-1]), **options)

    def _arguments(self, learned: dict[str, Any], units: int) -> dict[str, Any]:
        """What the options say to the op, for projections of `units` features."""
        alpha_scale, beta_scale = scales(self.scaling, units, paper=(1.0, 1.0))
        options = dataclasses.asdict(self)
        del options["scaling"]
        return {
            **options,
            "alpha": temperature(self.alpha, learned.get("alpha"), alpha_scale),
            "beta": temperature(self.beta, learned.get("beta"), beta_scale),
        }


MECHANISMS: dict[str, Any] = {"softmax": SoftmaxOptions, "coda": CoDAOptions}


def takes_options(attention: str) -> bool:
    """Whether the mechanism of this name has options."""
    return bool(dataclasses.fields(MECHANISMS[attention]))


def make_mechanism(attention: str, attention_options: dict[str, Any] | None) -> Any:
    """The mechanism of this name with these options; a `ValueError` that says what there is."""
    check_choice(attention, tuple(MECHANISMS), "attention")
    known = {field.name for field in dataclasses.fields(MECHANISMS[attention])}
    unknown = sorted(set(attention_options or {}) - known)
    if unknown:
        raise ValueError(
            f"`attention_options` of attention={attention!r} may have {sorted(known) or 'no entries'}. "
            f"Received: {unknown}"
        )
    return MECHANISMS[attention](**(attention_options or {}))
