"""Finds where an answer begins and ends, with recurrent layers over the passage."""

from typing import Any

import keras

from keras_quasiattn.layers.shared.arguments import (
    check_positive_integer,
    check_sequence,
    check_sequence_mask,
    sequence_mask,
)
from keras_quasiattn.layers.shared.bidirectional_gru import BidirectionalGRU
from keras_quasiattn.layers.shared.dense import Dense
from keras_quasiattn.layers.shared.quantized_parts import QuantizedParts
from keras_quasiattn.ops.masking import zero_padding

Tensor = Any
Shape = tuple[int | None, ...]


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class RecurrentSpanPointer(QuantizedParts, keras.layers.Layer):
    """Gives each position two logits: that the answer span begins there, and that it ends there.

    h = BiGRU(x);  start = h·w_s;  h' = BiGRU(h);  end = h'·w_e

    There are no biases, since a softmax over the positions cancels them. The recurrent layers skip
    masked positions, so nothing stored there, NaN included, affects the output. The logits of
    masked positions are exactly 0: a softmax over the logits must leave them out. The output keeps
    the mask.

    Args:
        units: size of the states of each direction.
        **kwargs: `name`, `dtype` and the like.

    Call arguments:
        inputs: (B, T, features).
        mask: boolean (or 0/1 integer) (B, T), True = real position. Defaults to the mask Keras
            attached to `inputs`.

    Returns:
        (B, T, 2): start, end.

    Raises:
        ValueError: units that are not a positive integer, inputs that are not (B, T, features), or
            a float mask.

    Example:
    >>> import numpy as np
    >>> from keras_quasiattn.layers import RecurrentSpanPointer
    >>> tuple(RecurrentSpanPointer(units=4)(np.ones((2, 5, 8), "float32")).shape)
    (2, 5, 2)

    Source: Tay et al. 2018, "Densely Connected Attention Propagation for Reading Comprehension",
    following its published code, which omits the mask.
    """

    def __init__(self, units: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.units = check_positive_integer(units, "units")
        self.supports_masking = True

    def build(self, inputs_shape: Shape) -> None:
        """Makes both recurrent layers and both logit projections."""
        check_sequence(inputs_shape, "inputs")
        dtype, states = self.dtype_policy, (*inputs_shape[:-1], 2 * self.units)
        self.start_recurrent = BidirectionalGRU(self.units, dtype=dtype, name="start_recurrent")
        self.start_recurrent.build(inputs_shape)
        self.end_recurrent = BidirectionalGRU(self.units, dtype=dtype, name="end_recurrent")
        self.end_recurrent.build(states)
        self.start_logit, self.end_logit = (
            Dense(1, use_bias=False, dtype=dtype, name=f"{side}_logit") for side in ("start", "end")
        )
        self.start_logit.build(states)
        self.end_logit.build(states)

    def call(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        """Returns the logits; see the class."""
        mask = sequence_mask(mask, "mask", inputs)
        start = self.start_recurrent(inputs, mask=mask)  # (B, T, 2·units)
        end = self.end_recurrent(start, mask=mask)  # (B, T, 2·units)
        # (B, T, 1) each, joined to (B, T, 2)
        logits = keras.ops.concatenate([self.start_logit(start), self.end_logit(end)], axis=-1)
        return zero_padding(logits, mask)

    def compute_output_shape(self, inputs_shape: Shape) -> Shape:
        """Returns (B, T, 2)."""
        return (*inputs_shape[:-1], 2)

    def compute_output_spec(self, inputs: Tensor, mask: Tensor | None = None) -> Any:
        """Returns symbolic logits (B, T, 2)."""
        check_sequence_mask(mask, "mask", inputs)
        return keras.KerasTensor(self.compute_output_shape(inputs.shape), dtype=self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        """Returns every constructor argument."""
        return {**super().get_config(), "units": self.units}
