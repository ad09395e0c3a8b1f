"""Base class of the layers that pool a sequence by attention: score weights, masks and shapes."""

from typing import Any

import keras
from keras import ops

from keras_quasiattn.layers.shared.arguments import (
    check_sequence,
    check_sequence_mask,
    sequence_mask,
)
from keras_quasiattn.layers.shared.quantized_parts import QuantizedParts
from keras_quasiattn.ops.backend import tanh
from keras_quasiattn.ops.checks import check_choice
from keras_quasiattn.ops.masking import zero_padding

Tensor = Any
Shape = tuple[int | None, ...]


class AttentionPooling(QuantizedParts, keras.layers.Layer):
    """Pools (B, T, D) to (B, D) with the scores e_t = wᵀ·tanh(h_t); subclasses implement `pool`.

    Args:
        final_tanh: whether to apply tanh to the pooled vector.
        kernel_initializer: initializer of w.
        **kwargs: arguments of `keras.layers.Layer`, such as `name` and `dtype`.
    """

    def __init__(
        self, *, final_tanh: bool = False, kernel_initializer: Any = "glorot_uniform", **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        check_choice(final_tanh, (False, True), "final_tanh")
        self.final_tanh = final_tanh
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.supports_masking = True

    def pool(self, states: Tensor, mask: Tensor | None, return_scores: bool) -> Any:
        """Returns the pooled states (B, D), or those and the weights (B, T)."""
        raise NotImplementedError

    def build(self, inputs_shape: Shape) -> None:
        """Creates w; raises a `ValueError` unless the inputs are (B, T, D)."""
        width = check_sequence(inputs_shape, "inputs")
        # No autocast: scores are computed in float32 or higher precision under every policy.
        self.kernel = self.add_weight(
            shape=(width, 1), initializer=self.kernel_initializer, autocast=False, name="kernel"
        )

    def call(
        self, inputs: Tensor, mask: Tensor | None = None, return_attention_scores: bool = False
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Pools `inputs` (B, T, D); see the class."""
        mask = sequence_mask(mask, "mask", inputs)
        inputs = ops.cast(inputs, self.compute_dtype)  # Keras does not cast integers
        result = self.pool(zero_padding(inputs, mask), mask, return_attention_scores)
        # (B, D) and (B, T)
        context, weights = result if return_attention_scores else (result, None)
        context = self.finish(context)
        return (context, weights) if return_attention_scores else context

    @property
    def score_kernel(self) -> Tensor:
        """w, (D,)."""
        return ops.squeeze(ops.convert_to_tensor(self.kernel), 1)  # (D, 1) to (D,)

    def finish(self, context: Tensor) -> Tensor:
        """Turns the pooled states into the layer's output."""
        return tanh(context) if self.final_tanh else context

    def compute_mask(self, inputs: Tensor, mask: Tensor | None = None) -> None:
        """Returns None: the output has no positions to mask."""
        return None

    def compute_output_shape(self, inputs_shape: Shape) -> Shape:
        """(B, D)."""
        return (inputs_shape[0], inputs_shape[-1])

    def compute_output_spec(
        self, inputs: Tensor, mask: Tensor | None = None, return_attention_scores: bool = False
    ) -> Any:
        """Returns the symbolic output (B, D), and weights (B, T)."""
        check_sequence_mask(mask, "mask", inputs)
        output = keras.KerasTensor(
            self.compute_output_shape(inputs.shape), dtype=self.compute_dtype
        )
        if not return_attention_scores:
            return output
        return output, keras.KerasTensor(inputs.shape[:2], dtype=self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        """Returns every constructor argument."""
        return {
            **super().get_config(),
            "final_tanh": self.final_tanh,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
        }
