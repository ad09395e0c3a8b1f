"""The options of a task: presets of its data and model options, and its training settings.

Nothing here imports Keras, so help, completion and errors are fast.
"""

import ast
import dataclasses
import math
import types
import typing
from collections.abc import Collection, Mapping
from typing import Any, Literal

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.tasks.attention_options import attention

SPLITS = ("train", "validation", "test")
ScheduleName = Literal["inverse_square_root", "linear", "cosine", "constant"]
ClassWeights = Literal["none", "balanced"]

# Data options that several tasks have. A hash chooses a tenth of the training texts for validation;
# the fold selects one of the ten tenths, and cross-validation uses one fold after another.
HELD_OUT: Mapping[str, Any] = {"validation_share": 0.1, "validation_fold": 0}
# For a user's own files; the validation file is optional.
OWN_DATA: Mapping[str, Any] = {**dict.fromkeys(SPLITS, ""), "test_share": 0.0, **HELD_OUT}
# For files with named columns: the names in the file of columns that differ.
OWN_TABLE: Mapping[str, Any] = {**OWN_DATA, "columns": {}}
WORD_OPTIONS: Mapping[str, Any] = {"min_count": 2, "vectors": "", "unknown_ids": 1}
# Options of a vocabulary learned from the training texts; an encoder has its own.
ENCODER_UNUSED = ("tokenizer", "vocabulary_size", "min_count", "unknown_ids")
# The options of the model `encoder` in the presets of all tasks that offer it.
ENCODER_OPTIONS: Mapping[str, Any] = {
    "encoder": "",
    **attention(),
    "attention_start": "unchanged",
    "factor_rate": 0.01,
    "dropout": 0.1,
    "length_quantile": 0.99,
    "layer_decay": 1.0,
    "frozen_layers": 0,
    "lora_rank": 0,
    "data.max_length": 256,
    "data.length_multiple": 1,
    "training.batch_size": 32,
    "training.learning_rate": 1e-4,
    "training.warmup_steps": 20,
    "training.schedule": "linear",
    # Minimums: training takes at least 4 passes, with a checkpoint after at least half a pass.
    "training.steps": 200,
    "training.passes": 4,
    "training.checkpoint_every": 50,
    # On TREC, SST-2 and Quora the accuracy still rises when the loss does: docs/guides/encoders.md.
    "training.select": "accuracy",
    "training.patience": 3,
    "training.label_smoothing": 0.0,
    "training.beta_2": 0.999,
    "training.epsilon": 1e-7,
}

_WORDS = {"true": True, "false": False, "none": None, "null": None}


@dataclasses.dataclass(frozen=True)
class TrainingSettings:
    """Everything the trainer needs besides the model and the data.

    Args:
        steps: total number of updates; with `passes`, the minimum.
        batch_size: examples per update, over all replicas; in the sequence tasks `translate` and
            `programs`, tokens of one side, padding included.
        learning_rate: the peak rate, reached at update `warmup_steps`.
        warmup_steps: updates over which the rate rises linearly from zero; 0 starts at the peak.
        schedule: how the rate continues after the peak: inverse_square_root, linear (to 0), cosine
            (to 0) or constant. `training.optimizers.WarmupSchedule` has the equations.
        checkpoint_every: updates between checkpoints, validations and rows of the history. With
            `passes`, the minimum.
        average_checkpoints: number of the last checkpoints whose mean is the finished model; 1
            takes the one that `select` names.
        label_smoothing: share of the target's probability spread over all classes, in [0, 1).
        clip_norm: largest global norm of the gradients, or None for no clipping.
        beta_2: Adam's β₂, in [0, 1); Tensor2Tensor's value by default.
        epsilon: Adam's ε; Tensor2Tensor's value by default.
        select: which checkpoint becomes the finished model: "last" (or the mean of the last ones),
            or the best by a validation metric: the lowest "loss" or "perplexity", or the highest
            value of any other metric, by name. The earlier of two equal checkpoints wins.
        patience: stop after this many checkpoints without a better value of `select`; None trains
            to the end.
        jit_compile: compile the updates with XLA, if one device trains. It recompiles for every
            new batch length, and on CPUs dropout makes a compiled update many times slower.
        passes: minimum number of passes over the training data, so that the number of updates grows
            with the data. See `over`; None trains `steps` updates on any data.
        class_weights: "balanced" weights the loss of an example by N/(classes·count) of its class
            among the N training rows, so that rare classes count as much as frequent ones; only for
            tasks with classes.
        accumulate: number of batches whose mean gradient changes the weights once, for less memory
            than one large batch; `steps` counts batches.

    Raises:
        UserError: a value is out of range, or two values conflict.

    >>> settings = TrainingSettings(
    ...     steps=200, batch_size=8, learning_rate=1e-3, warmup_steps=20, checkpoint_every=50
    ... )
    >>> settings.checkpoints
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
        for name in ("learning_rate", "epsilon"):
            self._require(name, 0 < getattr(self, name) < math.inf, "a number above 0")
        for name in ("label_smoothing", "beta_2"):
            self._require(name, 0 <= getattr(self, name) < 1, "at least 0 and below 1")
        for name in ("passes", "patience"):
            value = getattr(self, name)
            self._require(name, value is None or value >= 1, "none or at least 1")
        self._require("warmup_steps", self.warmup_steps >= 0, "0 or more")
        clips = self.clip_norm is None or 0 < self.clip_norm < math.inf
        self._require("clip_norm", clips, "none or a number above 0")
        self._require(
            "average_checkpoints",
            self.average_checkpoints <= self.checkpoints,
            f"at most {self.checkpoints}, the number of checkpoints (training.steps / "
            f"training.checkpoint_every, rounded up)",
        )
        # `over` sets the number of updates of some passes.
        changes = self.passes is not None or self.accumulate <= self.steps
        self._require("accumulate", changes, f"at most {self.steps}, the number of updates")
        last = self.select == "last"
        one = self.average_checkpoints == 1 or last
        self._require("average_checkpoints", one, f"1 when training.select is {self.select!r}")
        endless = self.patience is None or not last
        self._require("patience", endless, "none when training.select is 'last'")
        ends = self.schedule not in ("linear", "cosine") or self.warmup_steps < self.steps
        right = f"below training.steps ({self.steps}) for the schedule {self.schedule!r}"
        self._require("warmup_steps", ends, right)

    def _require(self, name: str, holds: bool, right: str) -> None:
        if not holds:
            raise UserError(f"training.{name} is {getattr(self, name)!r}: it must be {right}")

    def over(self, batches: int) -> "TrainingSettings":
        """Return the settings for data with this many batches per pass, with `passes` None.

        With `passes`, training takes at least that many passes, with a checkpoint after at least
        half a pass: data of many rows need more updates, and few rows need more than a few passes.

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
        checkpoints = -(-max(self.steps, self.passes * batches) // every)
        steps = checkpoints * every
        return dataclasses.replace(self, steps=steps, checkpoint_every=every, passes=None)

    @property
    def checkpoints(self) -> int:
        """Number of checkpoints in a full training run."""
        return -(-self.steps // self.checkpoint_every)


@dataclasses.dataclass(frozen=True)
class Preset:
    """The values of a task's data, model and training options.

    An option is named `data.<name>`, `model.<name>` or `training.<name>`. The value here (for
    training, the field) defines its type, and `with_overrides` rejects values of other types.

    Args:
        summary: one line on the purpose of the preset.
        data: data options by name; the values are JSON-serializable.
        model: model options by name; the values are JSON-serializable.
        training: the training settings.
        by_model: the differences for each model, by its name: additional or different model
            options, by name, and different data and training options, by dotted name. A model has
            only options that it uses.
        with_vectors: for each model, by name, the options that change if `data.vectors` names a
            file, by dotted name.
        unused: for each model, by name, the data options that do not affect it.
        usual_model: the default model; empty for the task's first.

    >>> training = TrainingSettings(
    ...     steps=8, batch_size=4, learning_rate=1e-3, warmup_steps=2, checkpoint_every=2
    ... )
    >>> preset = Preset(
    ...     "small", {}, {"width": 8}, training, by_model={"coda": {"gate_range": "scaled"}}
    ... )
    >>> preset.for_model("softmax").model, preset.for_model("coda").model
    ({'width': 8}, {'width': 8, 'gate_range': 'scaled'})
    """

    summary: str
    data: Mapping[str, Any]
    model: Mapping[str, Any]
    training: TrainingSettings
    by_model: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    with_vectors: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    unused: Mapping[str, Collection[str]] = dataclasses.field(default_factory=dict)
    usual_model: str = ""

    def for_model(self, model: str) -> "Preset":
        """Return the preset with the options of one of the task's models."""
        special = self.by_model.get(model, {})
        own = {name: value for name, value in special.items() if "." not in name}
        preset = dataclasses.replace(
            self,
            model={**self.model, **own},
            by_model={},
            with_vectors={model: self.with_vectors.get(model, {})},
            unused={model: self.unused.get(model, ())},
        )
        return preset.with_overrides({name: one for name, one in special.items() if "." in name})

    def options(self) -> dict[str, Any]:
        """Return all options and their values, by dotted name; JSON-serializable."""
        sections = {
            "data": self.data,
            "model": self.model,
            "training": dataclasses.asdict(self.training),
        }
        return {
            f"{section}.{name}": value
            for section, values in sections.items()
            for name, value in values.items()
        }

    @property
    def takes_vectors(self) -> bool:
        """Whether the model's embedding can start with the word vectors of `data.vectors`."""
        return "vectors" in self.data and "embedding_dim" in self.model

    def used_options(self) -> dict[str, Any]:
        """Return the options that affect this model; call `for_model` first."""
        without = {f"data.{name}" for some in self.unused.values() for name in some}
        if not self.takes_vectors:
            without.add("data.vectors")
        return {name: value for name, value in self.options().items() if name not in without}

    def __getitem__(self, option: str) -> Any:
        """Return the value of an option, or of an entry of one, by its dotted name."""
        section, name, *entry = option.split(".", 2)
        value = self.options()[f"{section}.{name}"]
        return value[entry[0]] if entry else value

    def with_overrides(self, overrides: Mapping[str, Any]) -> "Preset":
        """Return a copy with different values for some options.

        Args:
            overrides: values by dotted option name. A string is parsed unless the option is itself
                a string: `{"model.width": "64"}` gives 64. One entry of an option that is a
                dictionary is `model.option.entry`, of any type; there "none" stays a string, and
                None is "null".

        Raises:
            UserError: an option does not exist, or a value has the wrong type or is out of range.
        """
        hints = typing.get_type_hints(TrainingSettings)
        kinds: dict[str, Any] = {f"training.{name}": kind for name, kind in hints.items()}
        for section, values in (("data", self.data), ("model", self.model)):
            kinds |= {f"{section}.{name}": type(value) for name, value in values.items()}
        if overrides.get("data.vectors"):
            for changed in self.with_vectors.values():
                overrides = {**changed, **overrides}
        sections: dict[str, dict[str, Any]] = {
            "data": dict(self.data),
            "model": dict(self.model),
            "training": {"passes": None} if "training.steps" in overrides else {},
        }
        for option, value in overrides.items():
            section, _, name = option.partition(".")
            whole, _, entry = name.partition(".")
            if entry and kinds.get(f"{section}.{whole}") is dict:
                # Options of attentions such as `scaling` take the word "none"; None is "null".
                if isinstance(value, str) and value != "none":
                    value = _read(value)
                sections[section][whole] = {**sections[section][whole], entry: value}
            elif option in kinds:
                sections[section][name] = _converted(option, value, kinds[option])
            else:
                raise UserError.unknown("option", option, kinds)
        return dataclasses.replace(
            self,
            data=sections["data"],
            model=sections["model"],
            training=dataclasses.replace(self.training, **sections["training"]),
        )


def _converted(option: str, value: Any, kind: Any) -> Any:
    """Return the value as an instance of the option's type."""
    if typing.get_origin(kind) is typing.Literal:
        if value not in typing.get_args(kind):
            raise UserError.unknown(option, str(value), typing.get_args(kind))
        return value
    kinds = typing.get_args(kind) if isinstance(kind, types.UnionType) else (kind,)
    if isinstance(value, str) and str not in kinds:
        value = _read(value)
    if float in kinds and type(value) is int:
        return float(value)
    if tuple in kinds and isinstance(value, list):  # JSON has no tuples
        return tuple(value)
    if type(value) not in kinds:
        names = " or ".join("none" if one is types.NoneType else one.__name__ for one in kinds)
        raise UserError(f"{option} is {value!r}: it must be of type {names}")
    return value


def _read(text: str) -> Any:
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def constant_rate(steps: int, every: int, batch_size: int, **settings: Any) -> TrainingSettings:
    """Return settings with a constant rate, 1e-3 by default, and a checkpoint per `every`."""
    usual: dict[str, Any] = {"learning_rate": 1e-3, "warmup_steps": 0, "schedule": "constant"}
    return TrainingSettings(
        steps=steps, checkpoint_every=every, batch_size=batch_size, **{**usual, **settings}
    )


def models_of(
    options: Mapping[str, Mapping[str, Any]], changed: Mapping[str, Any] | None = None
) -> dict[str, dict[str, Any]]:
    """Return the options of each model; `changed` has other values for those that a model has."""
    values = changed or {}
    return {
        model: {name: values.get(name, value) for name, value in own.items()}
        for model, own in options.items()
    }
