"""The auxiliary networks of GA-Net: one logit per position."""

from typing import Any

import keras

from keras_quasiattn.layers.multi_head_softmax import MultiHeadSoftmax
from keras_quasiattn.layers.shared.arguments import (
    check_positive_integer,
    check_sequence,
    check_sequence_mask,
    sequence_mask,
)
from keras_quasiattn.layers.shared.dense import Dense
from keras_quasiattn.layers.shared.orthogonal_initializer import OrthogonalInitializer
from keras_quasiattn.layers.shared.quantized_parts import QuantizedParts
from keras_quasiattn.layers.shared.recurrence import bidirectional, run_recurrent
from keras_quasiattn.ops.checks import check_choice

Tensor = Any
Shape = tuple[int | None, ...]
NETWORKS = ("bilstm", "feed_forward", "self_attention")


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class GateNetwork(QuantizedParts, keras.layers.Layer):
    """A small network that reads a sequence and returns one logit per position.

    h' = network(x);  logit_t = u·h'_t + b

    bilstm: h' concatenates the states of a forward and a backward LSTM. feed_forward:
    h'_t = tanh(W·x_t + c). self_attention: z = tanh(W·x + c), and h' = z + softmax attention of z
    to itself; without the added z, the gates of different words would differ only through the
    words' queries. Masked positions do not affect the others.

    Args:
        network: "bilstm", "feed_forward" or "self_attention".
        units: size of the hidden states (per direction).
        **kwargs: arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        inputs: (B, T, D), zeros at masked positions.
        mask: boolean (B, T), True = real.

    Returns:
        (B, T, 1).

    Raises:
        ValueError: the network is unknown, `units` is not a positive integer, or the inputs are not
            (B, T, D).

    Example:
    >>> network = GateNetwork("feed_forward", units=4)
    >>> tuple(network(np.ones((2, 5, 8), "float32")).shape)
    (2, 5, 1)

    Source: Xue et al. 2019, eq. 4 and Table 5.
    """

    def __init__(self, network: str, units: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        check_choice(network, NETWORKS, "network")
        self.network = network
        self.units = check_positive_integer(units, "units")
        self.supports_masking = True

    def build(self, inputs_shape: Shape) -> None:
        """Creates the hidden layers and the output layer."""
        check_sequence(inputs_shape, "inputs")
        dtype = self.dtype_policy
        hidden_shape: Shape = (*inputs_shape[:-1], self.units)
        if self.network == "bilstm":
            self.hidden = bidirectional(
                keras.layers.LSTM(
                    self.units,
                    recurrent_initializer=OrthogonalInitializer,
                    return_sequences=True,
                    dtype=dtype,
                ),
                dtype=dtype,
                name="hidden",
            )
            hidden_shape = (*inputs_shape[:-1], 2 * self.units)
        else:
            self.hidden = Dense(self.units, activation="tanh", dtype=dtype, name="hidden")
        self.hidden.build(inputs_shape)
        if self.network == "self_attention":
            self.attention = MultiHeadSoftmax(1, self.units, dtype=dtype, name="attention")
            self.attention.build(hidden_shape, hidden_shape)
        self.logit = Dense(1, dtype=dtype, name="logit")
        self.logit.build(hidden_shape)

    def call(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        """Returns one logit per position, (B, T, 1)."""
        mask = sequence_mask(mask, "mask", inputs)
        if self.network == "bilstm":
            hidden = run_recurrent(self.hidden, inputs, mask)  # (B, T, 2·units)
            return self.logit(hidden)
        hidden = self.hidden(inputs)  # (B, T, units)
        if self.network == "self_attention":
            hidden = hidden + self.attention(hidden, hidden, query_mask=mask, value_mask=mask)
        return self.logit(hidden)  # (B, T, 1)

    def compute_output_shape(self, inputs_shape: Shape) -> Shape:
        """(B, T, 1)."""
        return (*inputs_shape[:-1], 1)

    def compute_output_spec(self, inputs: Tensor, mask: Tensor | None = None) -> Any:
        """Returns symbolic logits (B, T, 1)."""
        check_sequence_mask(mask, "mask", inputs)
        return keras.KerasTensor(self.compute_output_shape(inputs.shape), dtype=self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        """Returns every constructor argument."""
        return {**super().get_config(), "network": self.network, "units": self.units}
