"""The optimizer of a run, Tensor2Tensor's Adam or one from the caller, and its schedule."""

import json
import math
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
from keras import ops

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.tasks.preset import ScheduleName, TrainingSettings
from keras_quasiattn.lab.training.config import without_steps
from keras_quasiattn.lab.training.replicas import ReplicaAdam

MakeOptimizer = Callable[
    [keras.optimizers.schedules.LearningRateSchedule], keras.optimizers.Optimizer
]


def made_optimizer(
    settings: TrainingSettings,
    optimizer: keras.optimizers.Optimizer | MakeOptimizer | None,
    replicas: int,
    rate_factors: Mapping[str, float] | None = None,
) -> keras.optimizers.Optimizer:
    """Return a new optimizer without variables, for several replicas if they share a batch."""
    rate, warmup = settings.learning_rate, settings.warmup_steps
    schedule = WarmupSchedule(rate, warmup, settings.schedule, settings.steps)
    if optimizer is None:
        arguments: dict[str, Any] = {
            "learning_rate": schedule,
            "beta_1": 0.9,
            "beta_2": settings.beta_2,
            "epsilon": settings.epsilon,
            "global_clipnorm": settings.clip_norm,
            # Keras accepts 2 or more
            "gradient_accumulation_steps": settings.accumulate if settings.accumulate > 1 else None,
        }
        if rate_factors:
            return _AdamWithRates(rate_factors, **arguments)
        return (ReplicaAdam if replicas > 1 else keras.optimizers.Adam)(**arguments)
    if rate_factors:
        raise UserError(
            "the optimizer that was given has one learning rate for all weights: give none, or "
            "let model.layer_decay be 1 and model.factor_rate be training.learning_rate"
        )
    if isinstance(optimizer, keras.optimizers.Optimizer):
        made = type(optimizer).from_config(optimizer.get_config())
    else:
        made = optimizer(schedule) if callable(optimizer) else optimizer
    if not isinstance(made, keras.optimizers.Optimizer):
        raise UserError(
            "optimizer must be a Keras optimizer, or a function from a learning rate schedule to "
            f"one: got {made!r}"
        )
    if isinstance(made, keras.optimizers.LossScaleOptimizer):
        raise UserError(
            "optimizer is a LossScaleOptimizer: give the optimizer inside it, "
            "because policy='mixed_float16' adds loss scaling"
        )
    if made.use_ema:
        raise UserError(
            "optimizer has use_ema=True, but a run keeps the weights of its checkpoints: set it to "
            "False, and training.average_checkpoints to average the last ones"
        )
    if settings.clip_norm not in (None, made.global_clipnorm):
        raise UserError(
            f"training.clip_norm is {settings.clip_norm}, but the given optimizer has "
            f"global_clipnorm={made.global_clipnorm}: set both to the same, or clip_norm to none"
        )
    if settings.accumulate not in (1, made.gradient_accumulation_steps):
        raise UserError(
            f"training.accumulate is {settings.accumulate}, but the given optimizer has "
            f"gradient_accumulation_steps={made.gradient_accumulation_steps}: set both to the "
            "same, or accumulate to 1"
        )
    if replicas > 1 and made.gradient_accumulation_steps:
        raise UserError(
            f"optimizer has gradient_accumulation_steps={made.gradient_accumulation_steps}, but "
            "Keras cannot accumulate gradients with several replicas: leave it out"
        )
    clips = made.clipnorm or made.global_clipnorm or made.clipvalue
    if replicas > 1 and clips and not isinstance(made, ReplicaAdam):
        raise UserError(
            f"optimizer clips gradients, but Keras' {type(made).__name__} would clip the part of "
            "each replica: give none, and set training.clip_norm"
        )
    return made


class _AdamWithRates(ReplicaAdam):
    """Adam with a learning rate for each weight: the schedule's, times the factor of its path."""

    def __init__(self, rate_factors: Mapping[str, float], **arguments: Any) -> None:
        super().__init__(name="adam", **arguments)
        self._by_path = dict(rate_factors)

    def build(self, variables: Sequence[keras.Variable]) -> None:
        super().build(variables)
        self._factors = [self._by_path.get(one.path, 1.0) for one in variables]

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        factor = self._factors[self._get_variable_index(variable)]
        super().update_step(gradient, variable, factor * learning_rate)


def described(
    settings: TrainingSettings,
    optimizer: keras.optimizers.Optimizer | MakeOptimizer | None,
    callbacks: Sequence[keras.callbacks.Callback],
    replicas: int,
) -> dict[str, Any]:
    """Return the run folder's record of optimizer and callbacks; empty for defaults."""
    found: dict[str, Any] = {}
    for one in callbacks:
        if not isinstance(one, keras.callbacks.Callback):
            raise UserError(f"callbacks must hold Keras callbacks: got {one!r}")
    if callbacks:
        found["callbacks"] = [type(one).__name__ for one in callbacks]
    if optimizer is not None:
        made = made_optimizer(settings, optimizer, replicas)
        found["optimizer"] = type(made).__name__
        for name, value in made.get_config().items():
            if name != "name":
                found[f"optimizer.{name}"] = json.loads(json.dumps(value, default=float))
    return without_steps(found)


@keras.saving.register_keras_serializable("keras_quasiattn")
class WarmupSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """A linear rise to the peak rate at update `warmup_steps`, then one of four decays.

    With s = 1, 2, ... the number of the update and w = max(warmup_steps, 1), the rate is
    peak · min(1, s/w) · d(s):

    - "inverse_square_root": d(s) = sqrt(w / max(s, w)). Tensor2Tensor writes it
      c · min(1, s/w) · max(s, w)^-0.5, so its peak is c · w^-0.5: `transformer_base`, `_small` and
      `_tiny` have c = 2 · hidden^-0.5 and w = 8000, `transformer_base_single_gpu` has c = 0.1 and
      w = 16000.
    - "linear": d(s) falls from 1 at w to 0 at `steps`.
    - "cosine": d(s) falls from 1 at w to 0 at `steps` along half a cosine.
    - "constant": d(s) = 1.

    Tensor2Tensor counts s from 0, so its first update has rate zero; here s counts from 1.

    >>> schedule = WarmupSchedule(peak=1.0, warmup_steps=4, decay="inverse_square_root", steps=100)
    >>> [round(float(schedule(step)), 2) for step in (0, 3, 15)]
    [0.25, 1.0, 0.5]

    Source: Vaswani et al. 2017, eq. 3, and Tensor2Tensor's `learning_rate_schedule`.
    """

    def __init__(self, peak: float, warmup_steps: int, decay: ScheduleName, steps: int) -> None:
        if decay not in typing.get_args(ScheduleName):
            raise ValueError(f"decay must be one of {typing.get_args(ScheduleName)}, got {decay!r}")
        self.peak, self.warmup_steps, self.decay, self.steps = peak, warmup_steps, decay, steps

    def __call__(self, step: Any) -> Any:
        """Return the rate of the next update after `step` updates."""
        number = ops.cast(step, "float32") + 1.0
        warmup = float(max(self.warmup_steps, 1))
        rate = self.peak * ops.minimum(1.0, number / warmup)
        if self.decay == "inverse_square_root":
            return rate * ops.sqrt(warmup / ops.maximum(number, warmup))
        if self.decay == "constant":
            return rate
        done = ops.clip((number - warmup) / max(self.steps - warmup, 1.0), 0.0, 1.0)
        left = 1.0 - done if self.decay == "linear" else 0.5 * (1.0 + ops.cos(math.pi * done))
        return rate * left

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {name: getattr(self, name) for name in ("peak", "warmup_steps", "decay", "steps")}
