"""A named set of option values for a task; a user can override each of them."""

import ast
import dataclasses
import types
import typing
from collections.abc import Collection, Mapping
from typing import Any

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.tasks.settings import TrainingSettings

_WORDS = {"true": True, "false": False, "none": None, "null": None}


@dataclasses.dataclass(frozen=True)
class Preset:
    """The values of a task's data, model and training options.

    An option is named `data.<name>`, `model.<name>` or `training.<name>`. The value here (for
    training, the field) defines its type, and `with_overrides` rejects values of other types.

    Args:
        summary: one line on the purpose of the preset.
        data: data options by name; the values are JSON-serialisable.
        model: model options by name; the values are JSON-serialisable.
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
        options = {name: value for name, value in special.items() if "." not in name}
        vectors = {name: changed for name, changed in self.with_vectors.items() if name == model}
        unused = {name: some for name, some in self.unused.items() if name == model}
        preset = dataclasses.replace(
            self,
            model={**self.model, **options},
            by_model={},
            with_vectors=vectors,
            unused=unused,
        )
        return preset.with_overrides(
            {name: value for name, value in special.items() if "." in name}
        )

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
                dictionary is `model.option.entry`, of any type.

        Raises:
            UserError: an option does not exist, or a value has the wrong type or is out of range.
        """
        kinds = self._kinds()
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
                value = _read(value) if isinstance(value, str) else value
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

    def _kinds(self) -> dict[str, Any]:
        kinds: dict[str, Any] = {
            f"training.{name}": kind
            for name, kind in typing.get_type_hints(TrainingSettings).items()
        }
        for section, values in (("data", self.data), ("model", self.model)):
            kinds.update({f"{section}.{name}": type(value) for name, value in values.items()})
        return kinds


def _converted(option: str, value: Any, kind: Any) -> Any:
    """Return the value as an instance of the option's type.

    Raise UserError if it is of another type.
    """
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
