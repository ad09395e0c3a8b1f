"""Learning rate schedules with a warm-up."""

import math
import typing
from typing import Any

import keras
from keras import ops

from keras_quasiattn.lab.tasks.preset import ScheduleName, TrainingSettings


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

    Args:
        peak: the highest rate.
        warmup_steps: updates until the peak; 0 starts at the peak.
        decay: name of the decay d.
        steps: total number of updates, at least 1; only "linear" and "cosine" use it.

    Raises:
        ValueError: an unknown decay.

    >>> schedule = WarmupSchedule(peak=1.0, warmup_steps=4, decay="inverse_square_root", steps=100)
    >>> [round(float(schedule(step)), 2) for step in (0, 3, 15)]
    [0.25, 1.0, 0.5]

    Source: Vaswani et al. 2017, eq. 3, and Tensor2Tensor's `learning_rate_schedule`.
    """

    def __init__(self, peak: float, warmup_steps: int, decay: ScheduleName, steps: int) -> None:
        if decay not in typing.get_args(ScheduleName):
            raise ValueError(f"decay must be one of {typing.get_args(ScheduleName)}, got {decay!r}")
        self.peak = peak
        self.warmup_steps = warmup_steps
        self.decay = decay
        self.steps = steps

    @classmethod
    def from_settings(cls, settings: TrainingSettings) -> "WarmupSchedule":
        """Return the schedule that a task's settings describe."""
        return cls(settings.learning_rate, settings.warmup_steps, settings.schedule, settings.steps)

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
        return rate * (
            1.0 - done if self.decay == "linear" else 0.5 * (1.0 + ops.cos(math.pi * done))
        )

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {
            "peak": self.peak,
            "warmup_steps": self.warmup_steps,
            "decay": self.decay,
            "steps": self.steps,
        }
