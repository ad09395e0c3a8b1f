"""Encodes words by their characters."""

from typing import Any

import keras
from keras import ops

from keras_quasiattn.core.arguments import check_positive_integer
from keras_quasiattn.core.masks import zero_padding
from keras_quasiattn.core.quantized_parts import QuantizedParts
from keras_quasiattn.layers.recurrence import (
    OrthogonalInitializer,
    bidirectional,
    with_one_real_position,
)

Tensor = Any
Shape = tuple[int | None, ...]
CHARACTERS = 257  # 256 byte values, plus 0 for padding


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class CharacterStates(QuantizedParts, keras.layers.Layer):
    """Returns the last states of a bidirectional GRU over the characters of each word.

    Padding is id 0 and follows the characters. A word without characters gives exact zeros.

    Args:
        units: size of the states of each direction.
        embedding_dim: width of the character embedding. Defaults to 20.
        **kwargs: `name`, `dtype` and other `Layer` arguments.

    Call arguments:
        inputs: ids (B, T, C), from 0 to 256.

    Returns:
        (B, T, 2·units).

    Raises:
        ValueError: if a size is not a positive integer.

    Example:
    >>> CharacterStates(4)(keras.ops.ones((2, 5, 3), "int32")).shape == (2, 5, 8)
    True

    Source: Tay et al. 2018, "Densely Connected Attention Propagation for Reading Comprehension",
    §3.1.
    """

    def __init__(self, units: int, embedding_dim: int = 20, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.units = check_positive_integer(units, "units")
        self.embedding_dim = check_positive_integer(embedding_dim, "embedding_dim")

    def build(self, inputs_shape: Shape) -> None:
        """Creates the embedding and the GRU."""
        dtype = self.dtype_policy
        self.embedding = keras.layers.Embedding(
            CHARACTERS, self.embedding_dim, dtype=dtype, name="embedding"
        )
        self.embedding.build(None)
        self.recurrent = bidirectional(
            keras.layers.GRU(
                self.units, recurrent_initializer=OrthogonalInitializer, dtype=dtype, name="gru"
            ),
            dtype=dtype,
            name="recurrent",
        )
        self.recurrent.build((None, inputs_shape[-1], self.embedding_dim))

    def call(self, inputs: Tensor) -> Tensor:
        """Returns the states; see the class."""
        shape = ops.shape(inputs)
        words = ops.reshape(inputs, (-1, shape[2]))  # (B·T, C): each word is a sequence
        mask = ops.not_equal(words, 0)
        states = self.recurrent(
            self.embedding(words), mask=with_one_real_position(mask)
        )  # (B·T, 2·units)
        states = zero_padding(states, ops.any(mask, axis=-1))
        return ops.reshape(states, (-1, shape[1], 2 * self.units))

    def compute_output_shape(self, inputs_shape: Shape) -> Shape:
        """Returns (B, T, 2·units)."""
        return (*inputs_shape[:-1], 2 * self.units)

    def compute_output_spec(self, inputs: Tensor) -> Any:
        """Returns symbolic states (B, T, 2·units)."""
        return keras.KerasTensor(self.compute_output_shape(inputs.shape), dtype=self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor arguments."""
        return {**super().get_config(), "units": self.units, "embedding_dim": self.embedding_dim}
