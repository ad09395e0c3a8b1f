"""Models with weights of 8 bits, and what that costs them."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import keras

from keras_quasiattn.errors import UserError
from keras_quasiattn.tasks import Task
from keras_quasiattn.training import RunFolder

MODES: Final = ("int8",)
_SPLIT: Final = "validation"
_LAYERS = (
    keras.layers.Dense,
    keras.layers.EinsumDense,
    keras.layers.Embedding,
    keras.layers.ReversibleEmbedding,
)


class Quantized(NamedTuple):
    """A quantized model, with the task's figures of it and of the model that it was made from."""

    model: keras.Model
    mode: str
    before: Mapping[str, float | str]
    after: Mapping[str, float | str]

    def record(self) -> dict[str, Any]:
        """The figures, JSON-able."""
        return {
            "mode": self.mode,
            "split": _SPLIT,
            "before": dict(self.before),
            "after": dict(self.after),
        }

    def lines(self) -> list[str]:
        """Each figure before and after, a line each."""
        return [
            f"{name} on the {_SPLIT} split: {before:.4f}, and with {self.mode} weights {self.after[name]:.4f}"
            for name, before in self.before.items()
            if isinstance(before, float)
        ]


def quantize(
    folder: RunFolder, task: Task, mode: str = "int8", *, limit: int | None = 1000
) -> Quantized:
    """A finished run's model with weights of 8 bits, and its figures on the validation split before and after.

    The kernels of `Dense` and `EinsumDense` layers and the tables of embeddings become integers of 8 bits with a
    scale of float32 for each output, or for each row of a table; everything is still computed in the model's own
    precision. Recurrent layers, which Keras does not quantize, stay as they are. A SavedModel holds the integers;
    converters keep those of embeddings and fold kernels back to float32, rounded as they are. Activations are not
    quantized: with that, LiteRT refuses the models and OpenVINO answers with other numbers.

    Args:
        folder: the finished run.
        task: the run's task, with its data.
        mode: "int8".
        limit: number of validation examples to measure on; None takes them all.

    Raises:
        UserError: an unknown mode, or data that are not there.
    """
    if mode not in MODES:
        raise UserError.unknown("quantization", mode, MODES)
    task.prepare()
    model = folder.load_model()
    before = task.evaluate(model, _SPLIT, limit)
    config = keras.quantizers.Int8QuantizationConfig(activation_quantizer=None)
    model.quantize(config=config, filters=lambda layer: isinstance(layer, _LAYERS))
    return Quantized(model, mode, before, task.evaluate(model, _SPLIT, limit))
