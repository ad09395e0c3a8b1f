"""Quantize a finished run to 8-bit weights, with its metrics before and after."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import keras

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.tasks import Task
from keras_quasiattn.lab.training import RunFolder

MODES: Final = ("int8",)
_SPLIT: Final = "validation"
_LAYERS = (
    keras.layers.Dense,
    keras.layers.EinsumDense,
    keras.layers.Embedding,
    keras.layers.ReversibleEmbedding,
)


class Quantized(NamedTuple):
    """A quantized model, with the task's metrics before and after quantization."""

    model: keras.Model
    mode: str
    before: Mapping[str, Any]
    after: Mapping[str, Any]

    def record(self) -> dict[str, Any]:
        """Return the metrics as JSON data."""
        both = {"before": dict(self.before), "after": dict(self.after)}
        return {"mode": self.mode, "split": _SPLIT, **both}

    def lines(self) -> list[str]:
        """Return one line for each metric, with its value before and after."""
        return [
            f"{name} on the {_SPLIT} split: {before:.4f}, "
            f"and with {self.mode} weights {self.after[name]:.4f}"
            for name, before in self.before.items()
            if isinstance(before, float)
        ]


def quantize(
    folder: RunFolder, task: Task, mode: str = "int8", *, limit: int | None = 1000
) -> Quantized:
    """Quantize a finished run's weights to 8 bits; measure the validation split before and after.

    The kernels of `Dense` and `EinsumDense` layers and the tables of embeddings become 8-bit
    integers, with a float32 scale for each output, or for each row of a table. The model computes
    in the same precision as before. Recurrent layers stay as they are, because Keras does not
    quantize them. A SavedModel holds the integers; converters keep those of embeddings, but fold
    kernels back to float32 with the rounded values. Activations are not quantized, because LiteRT
    would reject such models and OpenVINO would give different answers.

    The only `mode` is "int8". `limit` is the number of validation examples to measure, by default
    1000; None measures all.

    Raises:
        UserError: an unknown mode, or data that are missing or have changed since the training.
    """
    UserError.check("quantization", mode, MODES)
    task.prepare()
    folder.require_same_data(task)
    model = folder.load_model(task)
    before = task.evaluate(model, _SPLIT, limit)
    config = keras.quantizers.Int8QuantizationConfig(activation_quantizer=None)
    model.quantize(config=config, filters=lambda layer: isinstance(layer, _LAYERS))
    return Quantized(model, mode, before, task.evaluate(model, _SPLIT, limit))
