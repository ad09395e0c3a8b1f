"""What layers save: their arguments, and how their sublayers are quantized."""

import inspect
import json
from typing import Any

import keras
import numpy as np

_STORED_AS = "quantization"
# The modes that `quantize` can repeat on new weights; the others calibrate on data.
_MODES = ("int8", "int4", "float8")


class QuantizedParts:
    """Mixin, listed first, for layers and models whose quantized sublayers must load as they were.

    Keras (3.15) would create float weights, because the configuration of the outer layer does not
    record what `model.quantize` did to sublayers, and refuse the file. So the layer also stores how
    its sublayers are quantized, and quantizes them before Keras loads their weights.
    """

    def save_own_variables(self, store: Any) -> None:
        """Store the layer's own weights, and how its sublayers are quantized."""
        super().save_own_variables(store)  # type: ignore[misc]
        quantized = {
            number: keras.saving.serialize_keras_object(self._repeatable(part))
            for number, part in enumerate(_parts(self))
            if _mode(part)
        }
        if quantized:
            store[_STORED_AS] = np.frombuffer(json.dumps(quantized).encode(), "uint8")

    def load_own_variables(self, store: Any) -> None:
        """Quantize the sublayers as they were, and load the layer's own weights."""
        own = {name: store[name] for name in store.keys()}  # noqa: SIM118 - not a dict
        stored = own.pop(_STORED_AS, None)
        if stored is not None:
            parts = _parts(self)
            for number, config in json.loads(np.asarray(stored).tobytes()).items():
                part = parts[int(number)]
                if _mode(part) is None:
                    config = keras.saving.deserialize_keras_object(config)
                    part.quantize(config.mode, type_check=False, config=config)
        super().load_own_variables(own)  # type: ignore[misc]

    def _repeatable(self, part: keras.layers.Layer) -> Any:
        """Return the configuration with which `part` was quantized."""
        if _mode(part) not in _MODES:
            raise ValueError(
                f"{type(self).__name__} can be saved with sublayers quantized to "
                f"{', '.join(_MODES)}. Received: {part.path!r} quantized to {_mode(part)!r}. Save "
                "the model before `quantize`, or export it"
            )
        return part.quantization_config


def _parts(layer: Any) -> list[keras.layers.Layer]:
    # Keras has no public way to list the layers in a layer
    return list(layer._flatten_layers(include_self=False))


def _mode(part: keras.layers.Layer) -> str | None:
    """Return the quantization mode of a layer without sublayers, or None."""
    return part.quantization_mode if getattr(part, "_is_quantized", False) else None


class Configured:
    """Mixin, listed first, for layers, metrics and losses whose arguments are attributes.

    For each argument, the configuration holds the attribute of the same name.
    """

    def get_config(self) -> dict[str, Any]:
        """Return every constructor argument."""
        return self.with_arguments(super().get_config())  # type: ignore[misc]

    def with_arguments(self, config: dict[str, Any]) -> dict[str, Any]:
        """Return a configuration with the arguments that it lacks, from the attributes."""
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
        if argument.name != "self"
        and argument.kind not in (argument.VAR_POSITIONAL, argument.VAR_KEYWORD)
    ]


def _serialized(value: Any) -> Any:
    if isinstance(value, (keras.initializers.Initializer, keras.Layer)):
        return keras.saving.serialize_keras_object(value)
    return keras.activations.serialize(value) if callable(value) else value


def clone_initializer(initializer: Any) -> Any:
    """Return a copy that draws other numbers, or a plain function as it is.

    An initializer object without a seed returns the same values at every call.
    """
    return initializer.clone() if hasattr(initializer, "clone") else initializer


class ConfiguredLayer(Configured, QuantizedParts, keras.layers.Layer):
    """Base class of layers that accept masks."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
