"""A named set of values for a task, any of which a user may override."""

import ast
import dataclasses
import types
import typing
from collections.abc import Mapping
from typing import Any

from keras_quasiattn.errors import UserError
from keras_quasiattn.tasks.settings import TrainingSettings

_WORDS = {"true": True, "false": False, "none": None, "null": None}


@dataclasses.dataclass(frozen=True)
class Preset:
    """The values of a task's options: those of its data, of its model and of its training.

    An option is named `data.<name>`, `model.<name>` or `training.<name>`; its type is that of the value here
    (of the field, for training), and `with_overrides` refuses a value of another type.

    Args:
        summary: one line that says what the preset is for.
        data: options of the data, by name; JSON-able values.
        model: options of the model, by name; JSON-able values.
        training: the training settings.
        by_model: further options of the model, or other values, for single models of the task, by the model's
            name; other values of the data's and the training's options too, by their dotted names. A model has
            no option that it would not use.

    >>> training = TrainingSettings(
    ...     steps=8, batch_size=4, learning_rate=1e-3, warmup_steps=2, checkpoint_every=2
    ... )
    >>> preset = Preset("small", {}, {"width": 8}, training, by_model={"coda": {"gate_range": "scaled"}})
    >>> preset.for_model("softmax").model, preset.for_model("coda").model
    ({'width': 8}, {'width': 8, 'gate_range': 'scaled'})
    """

    summary: str
    data: Mapping[str, Any]
    model: Mapping[str, Any]
    training: TrainingSettings
    by_model: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)

    def for_model(self, model: str) -> "Preset":
        """The preset with the options of one model of the task."""
        special = self.by_model.get(model, {})
        options = {name: value for name, value in special.items() if "." not in name}
        preset = dataclasses.replace(self, model={**self.model, **options}, by_model={})
        return preset.with_overrides(
            {name: value for name, value in special.items() if "." in name}
        )

    def options(self) -> dict[str, Any]:
        """All options and their values, by dotted name, JSON-able."""
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

    def with_overrides(self, overrides: Mapping[str, Any]) -> "Preset":
        """A copy in which some options have other values.

        Args:
            overrides: values by dotted option name; a text is read as a value of the option's type, so that
                `{"model.width": "64"}` gives 64.

        Raises:
            UserError: an option that does not exist, or a value of the wrong type or out of range.
        """
        kinds = self._kinds()
        sections: dict[str, dict[str, Any]] = {
            "data": dict(self.data),
            "model": dict(self.model),
            "training": {},
        }
        for option, value in overrides.items():
            if option not in kinds:
                raise UserError.unknown("option", option, kinds)
            section, name = option.split(".", 1)
            sections[section][name] = _converted(option, value, kinds[option])
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
    """The value as an instance of the option's type, or a UserError."""
    if typing.get_origin(kind) is typing.Literal:
        if value not in typing.get_args(kind):
            raise UserError.unknown(option, str(value), typing.get_args(kind))
        return value
    kinds = typing.get_args(kind) if isinstance(kind, types.UnionType) else (kind,)
    if isinstance(value, str) and str not in kinds:
        value = _read(value)
    if float in kinds and type(value) is int:
        return float(value)
    if tuple in kinds and isinstance(value, list):  # JSON and the command line know lists only
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
