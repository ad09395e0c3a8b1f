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


class AnySize:
    """Mixin, listed first, that lets Keras' recurrent layers read empty sequences and batches.

    Keras rejects B = 0 and T = 0, and cuDNN rejects fully masked rows. So the layer reads one row
    or position more where there is none, and the first position of a fully masked row. The caller
    must discard the outputs of such a row, and with T = 0 the last states.
    """

    return_sequences: bool
    return_state: bool

    def call(
        self,
        sequences: Tensor,
        initial_state: Any = None,
        mask: Tensor | None = None,
        training: bool | None = None,
    ) -> Any:
        """Return what Keras' layer returns for sequences (B, T, D) and a mask (B, T)."""
        batch, length = ops.shape(sequences)[:2]
        row, position = missing(batch), missing(length)
        sequences = extended(extended(sequences, row, 0), position, 1)
        if mask is not None:
            mask = with_one_real_position(extended(extended(mask, row, 0), position, 1))
        if initial_state is not None:
            initial_state = [extended(state, row, 0) for state in initial_state]
        options = {"initial_state": initial_state, "mask": mask, "training": training}
        found = super().call(sequences, **options)  # type: ignore[misc]
        output, *states = found if self.return_state else (found,)
        output = output[:batch, :length] if self.return_sequences else output[:batch]
        return (output, *(state[:batch] for state in states)) if self.return_state else output


def with_one_real_position(mask: Tensor) -> Tensor:
    """Return `mask` (B, T) with the first position of fully masked rows set to True.

    >>> with_one_real_position(np.array([[False, True], [False, False]])).numpy().tolist()
    [[False, True], [True, False]]
    """
    # (B, T): True at position 0 only
    first = ops.equal(ops.cumsum(ops.ones_like(mask, dtype="int32"), axis=1), 1)
    return ops.logical_or(mask, ops.logical_and(first, ~ops.any(mask, axis=1, keepdims=True)))


def missing(size: Any) -> Any:
    """Return 1 if a size is 0, otherwise 0; a tensor if the size is one, as in a graph.

    >>> missing(0), missing(3)
    (1, 0)
    """
    return 1 - ops.minimum(size, 1) if ops.is_tensor(size) else int(size == 0)


def extended(x: Tensor, count: Any, axis: int) -> Tensor:
    """Return x with `count` zeros added along an axis.

    >>> extended(np.ones((2, 1)), 1, axis=1).numpy().tolist()
    [[1.0, 0.0], [1.0, 0.0]]
    """
    if not ops.is_tensor(count) and not count:
        return x
    shape = (*ops.shape(x)[:axis], count, *ops.shape(x)[axis + 1 :])
    return ops.concatenate([x, ops.zeros(shape, x.dtype)], axis=axis)


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class GRU(AnySize, keras.layers.GRU):
    """`keras.layers.GRU` over any number of rows and positions; see `AnySize`."""


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class LSTM(AnySize, keras.layers.LSTM):
    """`keras.layers.LSTM` over any number of rows and positions; see `AnySize`."""


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class Bidirectional(AnySize, keras.layers.Bidirectional):
    """`keras.layers.Bidirectional` over any number of rows and positions; see `AnySize`.

    Keras copies the given layer through its configuration. While loading a model, it treats
    everything serialized at one memory address as one object. If the given layer were freed, the
    next layer created at its address would get the same copy for both directions, which Keras
    rejects. So this layer keeps it alive.
    """

    def __init__(self, layer: keras.layers.Layer, **kwargs: Any) -> None:
        super().__init__(layer, **kwargs)
        weakref.finalize(self, lambda kept: None, layer).atexit = False


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class BidirectionalGRU(SequenceLayer):
    """Read a sequence (B, T, features) in both directions: (B, T, 2·units).

    h_t = [GRU→(x)_t; GRU←(x)_t], where x has passed a dropout that drops a feature at all positions
    or at none

    Masked positions, NaN included, are skipped, and states there are 0. The output keeps the mask.

    Args:
        units: size of the states of each direction.
        dropout: dropout rate in [0, 1). Defaults to 0.

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
        self.recurrent = Bidirectional(gru, dtype=dtype, name="recurrent")
        self.recurrent.build((inputs_shape[0], None, width))

    def call(
        self, inputs: Tensor, mask: Tensor | None = None, training: bool | None = None
    ) -> Tensor:
        """Return the states of both directions; see the class."""
        x, mask = self.masked(inputs, mask)
        # (B, T, D) to (B, T, 2·units)
        x = self.input_dropout(x, training=training)
        states = self.recurrent(x, mask=mask, training=training)
        return zero_padding(states, mask)

    def compute_output_shape(self, inputs_shape: Shape) -> Shape:
        """Return (B, T, 2·units)."""
        return (*inputs_shape[:-1], 2 * self.units)
