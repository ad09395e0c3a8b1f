"""A bidirectional GRU that follows this package's mask rules."""

from typing import Any

import keras

from keras_quasiattn.layers.shared.arguments import (
    check_positive_integer,
    check_rate,
    check_sequence,
    check_sequence_mask,
    sequence_mask,
)
from keras_quasiattn.layers.shared.orthogonal_initializer import OrthogonalInitializer
from keras_quasiattn.layers.shared.quantized_parts import QuantizedParts
from keras_quasiattn.layers.shared.recurrence import bidirectional, run_recurrent
from keras_quasiattn.ops.masking import zero_padding

Tensor = Any
Shape = tuple[int | None, ...]


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class BidirectionalGRU(QuantizedParts, keras.layers.Layer):
    """Reads a sequence in both directions.

    h_t = [GRU→(x)_t; GRU←(x)_t], where x has passed a dropout that drops a feature at all positions
    or at none

    The GRUs skip masked positions. States there are exactly 0, and values there, NaN included, have
    no effect. The output keeps the mask.

    Args:
        units: size of the states of each direction.
        dropout: dropout rate in [0, 1).
        **kwargs: arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        inputs: (B, T, features).
        mask: boolean (or 0/1 integer) (B, T), True = real.
        training: whether to apply dropout.

    Returns:
        (B, T, 2·units).

    Raises:
        ValueError: an argument is out of range, the inputs are not (B, T, features), or the mask
            holds floats.

    Example:
    >>> tuple(BidirectionalGRU(4)(np.ones((2, 5, 3), "float32")).shape)
    (2, 5, 8)

    Source: Cho et al. 2014; the dropout: Gal and Ghahramani 2016, "A Theoretically Grounded
    Application of Dropout in Recurrent Neural Networks", on the inputs.
    """

    def __init__(self, units: int, dropout: float = 0.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.units = check_positive_integer(units, "units")
        self.dropout = check_rate(dropout, "dropout")
        self.supports_masking = True

    def build(self, inputs_shape: Shape) -> None:
        """Creates the dropout and the GRUs of both directions."""
        width = check_sequence(inputs_shape, "inputs")
        dtype = self.dtype_policy
        self.input_dropout = keras.layers.Dropout(
            self.dropout, noise_shape=(None, 1, None), dtype=dtype, name="input_dropout"
        )
        self.recurrent = bidirectional(
            keras.layers.GRU(
                self.units,
                recurrent_initializer=OrthogonalInitializer,
                return_sequences=True,
                dtype=dtype,
                name="gru",
            ),
            dtype=dtype,
            name="recurrent",
        )
        self.recurrent.build((inputs_shape[0], None, width))

    def call(
        self, inputs: Tensor, mask: Tensor | None = None, training: bool | None = None
    ) -> Tensor:
        """Returns the states of both directions; see the class."""
        mask = sequence_mask(mask, "mask", inputs)
        x = zero_padding(keras.ops.cast(inputs, self.compute_dtype), mask)
        # (B, T, D) to (B, T, 2·units)
        return run_recurrent(
            self.recurrent, self.input_dropout(x, training=training), mask, training
        )

    def compute_output_shape(self, inputs_shape: Shape) -> Shape:
        """(B, T, 2·units)."""
        return (*inputs_shape[:-1], 2 * self.units)

    def compute_output_spec(
        self, inputs: Tensor, mask: Tensor | None = None, training: bool | None = None
    ) -> Any:
        """Returns symbolic states (B, T, 2·units)."""
        check_sequence_mask(mask, "mask", inputs)
        return keras.KerasTensor(self.compute_output_shape(inputs.shape), dtype=self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        """Returns every constructor argument."""
        return {**super().get_config(), "units": self.units, "dropout": self.dropout}
