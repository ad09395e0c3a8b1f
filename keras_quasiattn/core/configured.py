"""Configurations derived from constructor arguments, and the base class of layers."""

import inspect
from typing import Any

import keras

from keras_quasiattn.core.quantized_parts import QuantizedParts


class Configured:
    """Mixin, listed first, for layers, metrics and losses whose arguments are attributes.

    For each argument, the configuration holds the attribute of the same name.
    """

    def get_config(self) -> dict[str, Any]:
        """Return every constructor argument."""
        config: dict[str, Any] = super().get_config()  # type: ignore[misc]
        own = [name for name in _arguments(type(self)) if name not in config]
        return config | {name: _serialized(getattr(self, name)) for name in own}


def _arguments(kind: Any) -> list[str]:
    """Return the names of the arguments of a class, and of its base classes up to `Configured`."""
    classes = kind.__mro__[: kind.__mro__.index(Configured)]
    constructors = [vars(one)["__init__"] for one in classes if "__init__" in vars(one)]
    return [
        argument.name
        for constructor in constructors
        for argument in inspect.signature(constructor).parameters.values()
        if argument.name != "self" and argument.kind is not argument.VAR_KEYWORD
    ]


def _serialized(value: Any) -> Any:
    if isinstance(value, (keras.initializers.Initializer, keras.Layer)):
        return keras.saving.serialize_keras_object(value)
    return keras.activations.serialize(value) if callable(value) else value


class ConfiguredLayer(Configured, QuantizedParts, keras.layers.Layer):
    """Base class of layers that accept masks."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
