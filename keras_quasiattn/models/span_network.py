"""The base class of networks that read a passage and a question and point at an answer."""

from typing import Any

import keras

from keras_quasiattn.core.quantized_parts import QuantizedParts

Tensor = Any
Shape = tuple[int | None, ...]


class SpanNetwork(QuantizedParts, keras.layers.Layer):
    """Maps two sequences of vectors to span logits; a `Reader` makes it from its own arguments.

    Call arguments:
        inputs: [passage (B, P, width), question (B, Q, width)].
        mask: [mask_p, mask_q], each None or boolean (B, P) and (B, Q), True = real.
        training: whether dropout is on.

    Returns:
        Logits (B, P, 2) of start and end, float32.
    """

    supports_masking = True

    def compute_mask(self, inputs: list[Tensor], mask: list[Tensor | None] | None = None) -> Any:
        """Returns the mask of the passage."""
        return None if mask is None else mask[0]

    def compute_output_shape(self, inputs_shape: list[Shape]) -> Shape:
        """Returns (B, P, 2)."""
        return (*inputs_shape[0][:-1], 2)

    def compute_output_spec(self, inputs: list[Tensor], **options: Any) -> Any:
        """Returns symbolic logits (B, P, 2)."""
        shapes = [tuple(x.shape) for x in inputs]
        return keras.KerasTensor(self.compute_output_shape(shapes), dtype="float32")
