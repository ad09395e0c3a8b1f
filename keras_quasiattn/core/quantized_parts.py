"""Save and restore the quantization of sublayers."""

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
