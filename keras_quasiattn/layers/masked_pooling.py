"""Pooling over the real positions of a sequence, without its padding."""

import math
from typing import Any

import keras
from keras import ops

from keras_quasiattn.layers.shared.arguments import check_sequence_mask, sequence_mask
from keras_quasiattn.ops.backend import maximum
from keras_quasiattn.ops.checks import check_choice
from keras_quasiattn.ops.masking import (
    largest,
    masked_mean,
    zero_padding,
)

Tensor = Any
Shape = tuple[int | None, ...]


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class MaskedPooling(keras.layers.Layer):
    """Pools a sequence over its real positions; a sequence with none gives zeros, not NaN.

    mean: Σ_l mask[l]·x[l] / Σ_l mask[l];  sum: Σ_l mask[l]·x[l];
    max: the largest x[l] with mask[l]

    For 16-bit inputs, sums and means are computed in float32. The output carries no mask.

    Args:
        mode: "mean", "sum" or "max".
        **kwargs: `name`, `dtype` and the like.

    Call arguments:
        inputs: (B, L, features).
        mask: boolean (or 0/1 integer) (B, L), True = real position. Defaults to the mask Keras
            attached to `inputs`.

    Returns:
        (B, features).

    Raises:
        ValueError: an unknown mode, a float mask, or inputs that are not (B, L, features).

    Example:
    >>> import numpy as np
    >>> from keras_quasiattn.layers import MaskedPooling
    >>> x = np.array([[[1.0], [3.0], [100.0]]], "float32")
    >>> np.asarray(MaskedPooling()(x, mask=np.array([[True, True, False]]))).tolist()
    [[2.0]]
    """

    def __init__(self, mode: str = "mean", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        check_choice(mode, ("mean", "sum", "max"), "mode")
        self.mode = mode
        self.supports_masking = True

    def build(self, inputs_shape: Shape) -> None:
        """Checks the shape of the inputs; there are no weights."""
        if len(inputs_shape) != 3:
            raise ValueError(
                "`inputs` must have shape (batch, length, features). "
                f"Received: inputs.shape={tuple(inputs_shape)}"
            )

    def call(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        """Pools `inputs` (B, L, features) to (B, features)."""
        mask = sequence_mask(mask, "mask", inputs)
        inputs = ops.cast(inputs, self.compute_dtype)  # Keras does not cast integers
        if self.mode == "max":
            return self._maximum(inputs, mask)
        precise = ops.cast(inputs, "float64" if self.compute_dtype == "float64" else "float32")
        if self.mode == "sum":
            pooled = ops.sum(zero_padding(precise, mask), axis=1)  # (B, features)
        else:
            positions = None if mask is None else ops.expand_dims(mask, -1)  # (B, L, 1)
            pooled = ops.squeeze(masked_mean(precise, positions, axis=1), 1)  # (B, features)
        return ops.cast(pooled, inputs.dtype)

    def _maximum(self, inputs: Tensor, mask: Tensor | None) -> Tensor:
        real = ops.ones_like(inputs[..., :1], dtype="bool")  # (B, L, 1)
        if mask is not None:
            real = ops.logical_and(real, ops.expand_dims(mask, -1))
        pooled = largest(  # (B, features)
            ops.where(real, inputs, ops.cast(-math.inf, inputs.dtype)), 1, lowest=-math.inf
        )
        # (B, 1): 0 for a sequence without real positions. `zero_masked` would not do: tf2onnx makes
        # it a product, and 0 · −∞ is NaN.
        floor = ops.where(
            ops.any(real, axis=1), ops.cast(-math.inf, inputs.dtype), ops.cast(0, inputs.dtype)
        )
        return maximum(pooled, floor)

    def compute_mask(self, inputs: Tensor, mask: Tensor | None = None) -> None:
        """Returns None: the output has no positions left to mask."""
        return None

    def compute_output_shape(self, inputs_shape: Shape) -> Shape:
        """Returns (B, features)."""
        return (inputs_shape[0], inputs_shape[-1])

    def compute_output_spec(self, inputs: Tensor, mask: Tensor | None = None) -> Any:
        """Returns the symbolic output (B, features)."""
        check_sequence_mask(mask, "mask", inputs)
        return keras.KerasTensor(self.compute_output_shape(inputs.shape), dtype=self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        """Returns every constructor argument."""
        return {**super().get_config(), "mode": self.mode}
