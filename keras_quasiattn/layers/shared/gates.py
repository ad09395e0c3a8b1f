"""Turns logits into gates and computes their cost; used by all gated layers."""

import dataclasses
import math
import numbers
from typing import Any

import keras
from keras import ops

from keras_quasiattn.layers.shared.arguments import check_positive_integer
from keras_quasiattn.layers.shared.quantized_parts import QuantizedParts
from keras_quasiattn.ops.checks import check_choice
from keras_quasiattn.ops.gates import gumbel_gate_of_logits, hard_gates
from keras_quasiattn.ops.masking import zero_masked
from keras_quasiattn.ops.random import gumbel_noise, uniform_noise

Tensor = Any


def check_number(
    value: Any, name: str, least: float, most: float = math.inf, *, open_end: bool = False
) -> float:
    """Returns `value` as a float.

    Raises a `ValueError` naming `name` unless it is a finite number within the bounds.
    """
    is_number = (
        isinstance(value, numbers.Real) and not isinstance(value, bool) and math.isfinite(value)
    )
    if not is_number or value < least or value > most or (open_end and value == least):
        sign, bound = (">" if open_end else "≥"), "" if most == math.inf else f" and ≤ {most}"
        raise ValueError(
            f"`{name}` must be a number {sign} {least}{bound}. Received: {name}={value!r}"
        )
    return float(value)


@dataclasses.dataclass
class GateOptions:
    """The arguments of `layers.GatedAttention` that say how gates open; checked here."""

    temperature: float = 1.0
    final_temperature: float | None = None
    annealing_steps: int = 10_000
    open_gate_cost: float = 1e-4
    inference: str = "threshold"
    threshold: float = 0.5

    def __post_init__(self) -> None:
        self.temperature = check_number(self.temperature, "temperature", 0, open_end=True)
        if self.final_temperature is not None:
            check_number(self.final_temperature, "final_temperature", 0, open_end=True)
        check_positive_integer(self.annealing_steps, "annealing_steps")
        self.open_gate_cost = check_number(self.open_gate_cost, "open_gate_cost", 0)
        check_choice(self.inference, ("threshold", "sample"), "inference")
        self.threshold = check_number(self.threshold, "threshold", 0, 1)


class Gates(QuantizedParts, keras.layers.Layer):
    """Draws gates from logits: soft with Gumbel noise in training, binary otherwise.

    When `training` is passed, as `fit` and `evaluate` do, the layer adds λ·Σ g/T to the loss,
    averaged over the rows with T > 0 (T = number of visible positions of a row). It reports this
    cost and the density as metrics. An exported model is called without `training`, so its graph
    updates nothing.

    Args:
        options: how the gates open.
        seed: seed of the noise and the draws.
        metric_prefix: prefix of the metric names.

    Call arguments:
        logits: (..., S), or (..., 1, S) with a mask of query-key pairs.
        mask: boolean, broadcasts against `logits`; True = visible.

    Returns:
        In training: float32 gates in (0, 1) with the shape of `logits`. Otherwise: boolean gates
        with the common shape of `logits` and `mask`, closed where the mask is False.
    """

    def __init__(
        self,
        options: GateOptions,
        *,
        seed: int | None = None,
        metric_prefix: str = "",
        **kwargs: Any,
    ) -> None:
        super().__init__(autocast=False, name="gates", **kwargs)
        self.supports_masking = True
        self.options, self.seed = options, seed
        # On JAX, Keras does not carry layer metrics through a compiled step.
        if keras.backend.backend() != "jax":
            self.density = keras.metrics.Mean(name=f"{metric_prefix}density")
            self.cost = keras.metrics.Mean(name=f"{metric_prefix}open_gate_cost")

    def build(self, logits_shape: Any) -> None:
        """Creates the seed generator, and a counter of training calls if τ is annealed."""
        self.seed_generator = keras.random.SeedGenerator(self.seed)
        if self.options.final_temperature is not None:
            self.steps = self.add_weight(
                shape=(),
                initializer="zeros",
                trainable=False,
                autocast=False,
                aggregation="only_first_replica",
                name="steps",
            )

    def call(
        self, logits: Tensor, mask: Tensor | None = None, training: bool | None = None
    ) -> Tensor:
        """Draws the gates."""
        logits = ops.cast(logits, "float64" if self.compute_dtype == "float64" else "float32")
        gates = self._soft(logits) if training else self._hard(logits, mask)
        if training is not None:
            self._update_cost_and_metrics(gates, mask)
        return gates

    def _soft(self, logits: Tensor) -> Tensor:
        noise = gumbel_noise(self.seed_generator.next(), ops.shape(logits))  # (..., S, 2)
        gates = gumbel_gate_of_logits(logits, noise, self.current_temperature())  # (..., S)
        if self.options.final_temperature is not None:
            self.steps.assign_add(1.0)
        return gates

    def current_temperature(self) -> float | Tensor:
        """τ of the next training call: moves exponentially to its final value, then stays."""
        start, end = self.options.temperature, self.options.final_temperature
        if end is None:
            return start
        share = ops.minimum(ops.convert_to_tensor(self.steps) / self.options.annealing_steps, 1.0)
        return start * ops.exp(share * math.log(end / start))

    def _hard(self, logits: Tensor, mask: Tensor | None) -> Tensor:
        threshold: Any = self.options.threshold
        if self.options.inference == "sample":
            threshold = uniform_noise(self.seed_generator.next(), ops.shape(logits))[..., 0]
        return hard_gates(ops.sigmoid(logits), threshold, mask)

    def _update_cost_and_metrics(self, gates: Tensor, mask: Tensor | None) -> None:
        """Adds the cost to the loss and updates the metrics."""
        visible = ops.ones_like(gates, dtype="bool")
        if mask is not None:
            visible = ops.logical_and(visible, mask)
        gates = zero_masked(ops.cast(gates, "float32"), visible)
        visible = ops.cast(visible, "float32")
        lengths = ops.sum(visible, axis=-1)  # (...): T of each row
        shares = ops.sum(gates, axis=-1) / ops.maximum(lengths, 1.0)  # (...)
        rows = ops.sum(ops.cast(lengths > 0, "float32"))  # a scalar, as all below
        cost = self.options.open_gate_cost * ops.sum(shares) / ops.maximum(rows, 1.0)
        if self.options.open_gate_cost:
            self.add_loss(cost)
        if keras.backend.backend() != "jax":
            total = ops.sum(lengths)
            density = ops.sum(ops.cast(gates >= 0.5, "float32")) / ops.maximum(total, 1.0)
            self.density.update_state(density, sample_weight=total)
            self.cost.update_state(cost, sample_weight=rows)
