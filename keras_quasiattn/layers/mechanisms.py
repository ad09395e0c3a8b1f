"""The options of CoDA between two sequences, wherever a layer offers them."""

import dataclasses
from typing import Any

import keras

from keras_quasiattn.layers.temperature import (
    Temperature,
    check_temperature,
    scales,
    temperature,
    temperature_weights,
)
from keras_quasiattn.ops.choice import IMPLEMENTATIONS
from keras_quasiattn.ops.composition import Composition, check_choice


@dataclasses.dataclass
class CoDAOptions:
    """Arguments of `layers.CoDA` from `alpha` on, checked; each means what it means there."""

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

    def arguments(self, learned: dict[str, Any], units: int) -> dict[str, Any]:
        """What they say to `ops.coda_pair`, for projections of `units` features."""
        alpha_scale, beta_scale = scales(self.scaling, units, paper=(1.0, 1.0))
        options = dataclasses.asdict(self)
        del options["scaling"]
        return {
            **options,
            "alpha": temperature(self.alpha, learned.get("alpha"), alpha_scale),
            "beta": temperature(self.beta, learned.get("beta"), beta_scale),
        }


def options_of(attention: str, attention_options: dict[str, Any] | None) -> CoDAOptions:
    """The options in `attention_options` of `attention`, "coda" or "softmax", which has none; checked."""
    check_choice(attention, ("softmax", "coda"), "attention")
    known = vars(CoDAOptions()) if attention == "coda" else {}
    unknown = sorted(set(attention_options or {}) - set(known))
    if unknown:
        raise ValueError(
            f"`attention_options` of attention={attention!r} may have {sorted(known) or 'no entries'}. "
            f"Received: {unknown}"
        )
    return CoDAOptions(**(attention_options or {}))
