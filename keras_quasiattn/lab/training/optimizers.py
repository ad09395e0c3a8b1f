"""The optimizer of a run: Tensor2Tensor's Adam, or one from the caller."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.tasks.preset import TrainingSettings
from keras_quasiattn.lab.training.replicas import ReplicaAdam
from keras_quasiattn.lab.training.schedules import WarmupSchedule

MakeOptimizer = Callable[
    [keras.optimizers.schedules.LearningRateSchedule], keras.optimizers.Optimizer
]


def made_optimizer(
    settings: TrainingSettings,
    optimizer: keras.optimizers.Optimizer | MakeOptimizer | None,
    replicas: int,
    rate_factors: Mapping[str, float] | None = None,
) -> keras.optimizers.Optimizer:
    """Return a new optimizer that has no variables yet.

    Args:
        settings: the task's training settings.
        optimizer: as for `train`.
        replicas: number of replicas that share a batch.
        rate_factors: as `Task.rate_factors` returns them.

    Raises:
        UserError: factors are given with an optimizer object, or it is not an optimizer, scales
            losses itself, does not clip or accumulate as the settings require, or clips although
            several replicas share a batch.
    """
    schedule = WarmupSchedule.from_settings(settings)
    if optimizer is None:
        arguments: dict[str, Any] = {
            "learning_rate": schedule,
            "beta_1": 0.9,
            "beta_2": settings.beta_2,
            "epsilon": settings.epsilon,
            "global_clipnorm": settings.clip_norm,
            # Keras takes 2 and more
            "gradient_accumulation_steps": settings.accumulate if settings.accumulate > 1 else None,
        }
        if rate_factors:
            return _AdamWithRates(rate_factors, **arguments)
        return (ReplicaAdam if replicas > 1 else keras.optimizers.Adam)(**arguments)
    if rate_factors:
        raise UserError(
            "the optimizer that was given has one learning rate for all weights: give none, or "
            "let model.layer_decay be 1"
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
    clips = made.clipnorm or made.global_clipnorm or made.clipvalue
    if replicas > 1 and clips and not isinstance(made, ReplicaAdam):
        raise UserError(
            f"optimizer clips gradients, but Keras' {type(made).__name__} would clip the part of "
            "each replica: give none, and set training.clip_norm"
        )
    return made


class _AdamWithRates(ReplicaAdam):
    """Adam with a learning rate for each weight: the schedule's, times the weight's factor.

    Args:
        rate_factors: the factors by path; a weight without one has 1.
        **arguments: those of Adam.
    """

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
    """Return the run folder's record of optimizer and callbacks; empty for defaults.

    Raises:
        UserError: see `made_optimizer`; or a callback is not a Keras callback.
    """
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
    return found
