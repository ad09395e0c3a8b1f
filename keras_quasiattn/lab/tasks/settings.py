"""The training settings of a task."""

import dataclasses
import math
from typing import Literal

from keras_quasiattn.errors import UserError

ScheduleName = Literal["inverse_square_root", "linear", "cosine", "constant"]
ClassWeights = Literal["none", "balanced"]


@dataclasses.dataclass(frozen=True)
class TrainingSettings:
    """Everything the trainer needs besides the model and the data.

    Args:
        steps: total number of updates; the last period may be shorter than `checkpoint_every`. With
            `passes`, the least number.
        batch_size: examples per update, over all replicas; in the sequence tasks `translate` and
            `programs`, tokens of one side, padding included.
        learning_rate: the peak rate, reached at update `warmup_steps`.
        warmup_steps: updates over which the rate rises linearly from zero; 0 starts at the peak.
        schedule: how the rate continues after the peak: inverse_square_root, linear (to 0), cosine
            (to 0) or constant. `training.schedules.WarmupSchedule` has the equations.
        checkpoint_every: updates between checkpoints, validations and rows of the history. With
            `passes`, the least number.
        average_checkpoints: number of last checkpoints whose mean is the finished model; 1 takes
            the last one.
        label_smoothing: share of the target's probability spread over all classes, in [0, 1).
        clip_norm: largest global norm of the gradients, or None for no clipping.
        beta_2: Adam's β₂, in [0, 1); Tensor2Tensor's value by default.
        epsilon: Adam's ε; Tensor2Tensor's value by default.
        select: which checkpoint becomes the finished model: "last" (or the mean of the last ones),
            or the best by a validation metric: the lowest "loss" or "perplexity", or the highest
            value of any other metric, by name. The earlier of two equal checkpoints wins.
        patience: stop after this many periods without a better value of `select`; None trains all
            steps.
        jit_compile: compile the training step with XLA, if one device trains. It recompiles for
            every new batch length, and on CPUs dropout makes a compiled step many times slower.
        passes: let the number of updates grow with the data, to this many passes over them, or
            none. See `over`; None trains `steps` updates on any data.
        class_weights: "balanced" weights the loss of an example by N/(classes·count) of its class
            among the N training rows, so that rare classes count as much as frequent ones; only for
            tasks with classes.
        accumulate: batches whose mean gradient makes one change of the weights, for less memory
            than one large batch; `steps` counts batches.

    Raises:
        UserError: a value is out of range, or two values conflict.

    >>> settings = TrainingSettings(
    ...     steps=200, batch_size=8, learning_rate=1e-3, warmup_steps=20, checkpoint_every=50
    ... )
    >>> settings.periods
    4
    """

    steps: int
    batch_size: int
    learning_rate: float
    warmup_steps: int
    checkpoint_every: int
    schedule: ScheduleName = "inverse_square_root"
    average_checkpoints: int = 1
    label_smoothing: float = 0.0
    clip_norm: float | None = None
    beta_2: float = 0.997
    epsilon: float = 1e-9
    select: str = "last"
    patience: int | None = None
    jit_compile: bool = False
    passes: int | None = None
    class_weights: ClassWeights = "none"
    accumulate: int = 1

    def __post_init__(self) -> None:
        counts = ("steps", "batch_size", "checkpoint_every", "average_checkpoints", "accumulate")
        for name in counts:
            self._require(name, getattr(self, name) >= 1, "at least 1")
        self._require("passes", self.passes is None or self.passes >= 1, "none or at least 1")
        self._require("warmup_steps", self.warmup_steps >= 0, "0 or more")
        self._require("learning_rate", 0 < self.learning_rate < math.inf, "a number above 0")
        self._require("label_smoothing", 0 <= self.label_smoothing < 1, "at least 0 and below 1")
        self._require(
            "clip_norm", self.clip_norm is None or self.clip_norm > 0, "none or a number above 0"
        )
        self._require("beta_2", 0 <= self.beta_2 < 1, "at least 0 and below 1")
        self._require("epsilon", 0 < self.epsilon < math.inf, "a number above 0")
        self._require(
            "average_checkpoints",
            self.average_checkpoints <= self.periods,
            f"at most {self.periods}, the number of checkpoints (training.steps / "
            f"training.checkpoint_every, rounded up)",
        )
        self._require(
            "average_checkpoints",
            self.average_checkpoints == 1 or self.select == "last",
            f"1 when training.select is {self.select!r}",
        )
        self._require("patience", self.patience is None or self.patience >= 1, "none or at least 1")
        self._require(
            "patience",
            self.patience is None or self.select != "last",
            "none when training.select is 'last'",
        )
        self._require(
            "warmup_steps",
            self.schedule not in ("linear", "cosine") or self.warmup_steps < self.steps,
            f"below training.steps ({self.steps}) for the schedule {self.schedule!r}",
        )

    def _require(self, name: str, holds: bool, right: str) -> None:
        if not holds:
            raise UserError(f"training.{name} is {getattr(self, name)!r}: it must be {right}")

    def over(self, batches: int) -> "TrainingSettings":
        """Return the settings for data with this many batches per pass, with `passes` None.

        With `passes`, training takes at least that many passes, and a period at least half a pass:
        data of many rows need more updates, and few rows need more than a few passes.

        >>> settings = TrainingSettings(
        ...     steps=200, batch_size=8, learning_rate=1e-3, warmup_steps=20, checkpoint_every=50,
        ...     passes=4,
        ... )
        >>> [(some.steps, some.checkpoint_every) for some in map(settings.over, (10, 300))]
        [(200, 50), (1200, 150)]
        """
        if self.passes is None:
            return self
        every = max(self.checkpoint_every, -(-batches // 2))
        periods = -(-max(self.steps, self.passes * batches) // every)
        return dataclasses.replace(self, steps=periods * every, checkpoint_every=every, passes=None)

    @property
    def periods(self) -> int:
        """Number of checkpoint periods in a full training run; the last may be shorter."""
        return -(-self.steps // self.checkpoint_every)
