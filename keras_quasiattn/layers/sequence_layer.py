"""Base class of the layers over one sequence: inputs, masks and shapes."""

from typing import Any

import keras

from keras_quasiattn.core.arguments import call_arguments
from keras_quasiattn.core.configured import ConfiguredLayer
from keras_quasiattn.core.masks import check_sequence_mask, sequence_mask, zero_padding

Tensor = Any
Shape = tuple[int | None, ...]


class SequenceLayer(ConfiguredLayer):
    """Take a sequence `inputs` (B, T, D) and a `mask` (B, T)."""

    def masked(self, inputs: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Return the inputs in the compute dtype, 0 where masked, and the boolean mask."""
        mask = sequence_mask(mask, "mask", inputs)
        inputs = keras.ops.cast(inputs, self.compute_dtype)  # Keras does not cast integers
        return zero_padding(inputs, mask), mask

    def compute_output_shape(self, inputs_shape: Shape) -> Shape:
        """Return the shape of the output; by default, of the inputs."""
        return tuple(inputs_shape)

    def weights_shape(self, inputs_shape: Shape) -> Shape:
        """Return the shape of the weights, (B, T), of layers with `return_attention_scores`."""
        return tuple(inputs_shape[:2])

    def compute_output_spec(self, *args: Any, **kwargs: Any) -> Any:
        """Return what `call` returns, as symbolic tensors."""
        given = call_arguments(self, args, kwargs)
        check_sequence_mask(given["mask"], "mask", given["inputs"])
        shape, dtype = given["inputs"].shape, self.compute_dtype
        output = keras.KerasTensor(self.compute_output_shape(shape), dtype=dtype)
        if not given.get("return_attention_scores"):
            return output
        return output, keras.KerasTensor(self.weights_shape(shape), dtype=dtype)
