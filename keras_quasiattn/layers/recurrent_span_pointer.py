"""Where an answer begins and ends, by recurrent layers over the passage."""

from typing import Any

import keras

from keras_quasiattn.layers.shared.arguments import (
    check_positive_integer,
    check_sequence,
    sequence_mask,
)
from keras_quasiattn.layers.shared.bidirectional_gru import BidirectionalGRU
from keras_quasiattn.layers.shared.dense import Dense
from keras_quasiattn.ops.masking import zero_padding

Tensor = Any
Shape = tuple[int | None, ...]


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class RecurrentSpanPointer(keras.layers.Layer):
    """Two logits a position: that a span begins there, and that it ends there.

    h = BiGRU(x);  start = h·w_s;  h' = BiGRU(h);  end = h'·w_e

    There are no biases, since a softmax over the positions cancels them. A masked position is passed over, its logits
    are exactly 0, and nothing that stands there, NaN included, matters: a softmax over the logits has to leave it out.
    The output keeps the mask.

    Args:
        units: size of the states of each direction.
        **kwargs: `name`, `dtype` and the like.

    Call arguments:
        inputs: (B, T, features).
        mask: boolean (or 0/1 integer) (B, T), True = real; default the mask that Keras attached.

    Returns:
        (B, T, 2): start, end.

    Raises:
        ValueError: units that are not a positive integer, inputs that are not (B, T, features), a float mask.

    Example:
    >>> import numpy as np
    >>> from keras_quasiattn.layers import RecurrentSpanPointer
    >>> tuple(RecurrentSpanPointer(units=4)(np.ones((2, 5, 8), "float32")).shape)
    (2, 5, 2)

    Source: Tay et al. 2018, "Densely Connected Attention Propagation for Reading Comprehension", as its published
    code has it, which leaves out the mask.
    """

    def __init__(self, units: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.units = check_positive_integer(units, "units")
        self.supports_masking = True

    def build(self, inputs_shape: Shape) -> None:
        """Makes both recurrent layers and both logits."""
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
        """The logits; see the class."""
        mask = sequence_mask(mask, "mask")
        start = self.start_recurrent(inputs, mask=mask)
        end = self.end_recurrent(start, mask=mask)
        logits = keras.ops.concatenate([self.start_logit(start), self.end_logit(end)], axis=-1)
        return zero_padding(logits, mask)

    def compute_output_shape(self, inputs_shape: Shape) -> Shape:
        """(B, T, 2)."""
        return (*inputs_shape[:-1], 2)

    def compute_output_spec(self, inputs: Tensor, mask: Tensor | None = None) -> Any:
        """Symbolic logits (B, T, 2)."""
        sequence_mask(mask, "mask")
        return keras.KerasTensor(self.compute_output_shape(inputs.shape), dtype=self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        """Every constructor argument."""
        return {**super().get_config(), "units": self.units}
