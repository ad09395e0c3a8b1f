"""Recurrent layers over masked sequences, and the initializer of their kernels."""

import weakref
from typing import Any

import keras
from keras import ops

from keras_quasiattn.core.arguments import check_positive_integer, check_rate, check_sequence
from keras_quasiattn.core.masks import zero_padding
from keras_quasiattn.layers.base import SequenceLayer, Shape

Tensor = Any


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class OrthogonalInitializer(keras.initializers.Orthogonal):
    """`keras.initializers.Orthogonal` for every dtype: 16-bit kernels are drawn in float32.

    PyTorch has no QR decomposition in float16 and bfloat16. In float32 and float64 the values are
    the same as Keras'. With a global seed this also holds if a layer is given this class, not an
    instance, because the layer then creates the instance where it would create Keras' own.

    >>> kernel = OrthogonalInitializer(seed=1)((2, 2), dtype="float16")
    >>> np.round(kernel @ keras.ops.transpose(kernel), 2).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """

    def __call__(self, shape: tuple[int, ...], dtype: Any = None) -> Tensor:
        """Return a tensor of `shape`."""
        dtype = keras.backend.standardize_dtype(dtype)
        wide = dtype if dtype in ("float32", "float64") else "float32"
        drawn = super().__call__(shape, dtype=wide)
        return ops.cast(drawn, dtype)


def with_one_real_position(mask: Tensor) -> Tensor:
    """Return `mask` (B, T) with the first position of fully masked rows set to True.

    cuDNN rejects rows without real positions. The caller must discard what is computed at the added
    positions.

    >>> with_one_real_position(np.array([[False, True], [False, False]])).numpy().tolist()
    [[False, True], [True, False]]
    """
    # (B, T): True at position 0 only
    first = ops.equal(ops.cumsum(ops.ones_like(mask, dtype="int32"), axis=1), 1)
    return ops.logical_or(mask, ops.logical_and(first, ~ops.any(mask, axis=1, keepdims=True)))


def bidirectional(recurrent: keras.layers.Layer, **options: Any) -> keras.layers.Bidirectional:
    """Wrap a recurrent layer in Keras' `Bidirectional`, even while a model is being loaded.

    Keras copies `recurrent` through its configuration. While loading a model, it treats everything
    serialized at one memory address as one object. If `recurrent` were freed, the next layer
    created at its address would get the same copy for both directions, which Keras rejects. So the
    returned layer keeps `recurrent` alive.
    """
    layer = keras.layers.Bidirectional(recurrent, **options)
    weakref.finalize(layer, lambda kept: None, recurrent).atexit = False
    return layer


def run_recurrent(
    recurrent: keras.layers.Layer, inputs: Tensor, mask: Tensor | None, training: bool | None = None
) -> Tensor:
    """Run a built recurrent layer over inputs (B, T, D): states (B, T, units), 0 where masked.

    Masked positions are skipped, as if they were deleted. B and T may be 0, which Keras' own layers
    reject, and rows may be fully masked, which cuDNN rejects.
    """
    row = int(inputs.shape[0] == 0)  # an empty batch is padded to one row
    if mask is None:
        if inputs.shape[1] and not row:
            return recurrent(inputs, training=training)
        mask = ops.ones_like(inputs[..., 0], dtype="bool")
    extra = 0 if inputs.shape[1] else 1  # 1 if T is 0 or unknown
    read = ops.pad(inputs, ((0, row), (0, extra), (0, 0)))
    real = ops.pad(mask, ((0, row), (0, extra)))
    # (B + row, T + extra, features)
    states = recurrent(read, mask=with_one_real_position(real), training=training)
    return zero_padding(states[: -row or None, : -extra or None], mask)


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class BidirectionalGRU(SequenceLayer):
    """Read a sequence (B, T, features) in both directions: (B, T, 2·units).

    h_t = [GRU→(x)_t; GRU←(x)_t], where x has passed a dropout that drops a feature at all positions
    or at none

    Masked positions, NaN included, are skipped, and states there are 0. The output keeps the mask.

    Args:
        units: size of the states of each direction.
        dropout: dropout rate in [0, 1).

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

    def build(self, inputs_shape: Shape) -> None:
        """Create the dropout and the GRUs of both directions."""
        width = check_sequence(inputs_shape, "inputs")
        dtype = self.dtype_policy
        self.input_dropout = keras.layers.Dropout(
            self.dropout, noise_shape=(None, 1, None), dtype=dtype, name="input_dropout"
        )
        gru = keras.layers.GRU(
            self.units,
            recurrent_initializer=OrthogonalInitializer,
            return_sequences=True,
            dtype=dtype,
            name="gru",
        )
        self.recurrent = bidirectional(gru, dtype=dtype, name="recurrent")
        self.recurrent.build((inputs_shape[0], None, width))

    def call(
        self, inputs: Tensor, mask: Tensor | None = None, training: bool | None = None
    ) -> Tensor:
        """Return the states of both directions; see the class."""
        x, mask = self.masked(inputs, mask)
        # (B, T, D) to (B, T, 2·units)
        x = self.input_dropout(x, training=training)
        return run_recurrent(self.recurrent, x, mask, training)

    def compute_output_shape(self, inputs_shape: Shape) -> Shape:
        """Return (B, T, 2·units)."""
        return (*inputs_shape[:-1], 2 * self.units)
