"""Builds and runs recurrent layers so that they follow this package's mask rules."""

import weakref
from typing import Any

import keras
from keras import ops

from keras_quasiattn.ops.masking import zero_padding

Tensor = Any


def with_one_real_position(mask: Tensor) -> Tensor:
    """Returns `mask` (B, T) with the first position of fully masked rows set to True.

    cuDNN rejects rows without real positions. The caller must discard what is computed at the added
    positions.

    >>> with_one_real_position(np.array([[False, True], [False, False]])).numpy().tolist()
    [[False, True], [True, False]]
    """
    # (B, T): True at position 0 only
    first = ops.equal(ops.cumsum(ops.ones_like(mask, dtype="int32"), axis=1), 1)
    return ops.logical_or(mask, ops.logical_and(first, ~ops.any(mask, axis=1, keepdims=True)))


def bidirectional(recurrent: keras.layers.Layer, **options: Any) -> keras.layers.Bidirectional:
    """Wraps a recurrent layer in Keras' `Bidirectional`, safely also while a model is loaded.

    Keras copies `recurrent` through its configuration. While it loads a model, it takes everything
    serialized at one memory address for one object. If `recurrent` were freed, the next layer
    created at its address would get the same copy for both directions, which Keras rejects. So
    `recurrent` is kept alive as long as the returned layer.

    Args:
        recurrent: a layer without weights yet.
        options: arguments of Keras' `Bidirectional`.

    Returns:
        The layer, without weights yet: (B, T, D) to (B, T, 2·units), or whatever `recurrent` and
        `merge_mode` define.
    """
    layer = keras.layers.Bidirectional(recurrent, **options)
    weakref.finalize(layer, lambda kept: None, recurrent).atexit = False
    return layer


def run_recurrent(
    recurrent: keras.layers.Layer, inputs: Tensor, mask: Tensor | None, training: bool | None = None
) -> Tensor:
    """Runs a recurrent layer that returns sequences: states (B, T, units), 0 at masked positions.

    Masked positions are skipped, as if they were deleted. B and T may be 0, which Keras' own layers
    reject, and rows may be fully masked, which cuDNN rejects.

    Args:
        recurrent: a built layer, possibly bidirectional.
        inputs: (B, T, D), zeros at masked positions.
        mask: boolean (B, T), True = real; or None.
        training: as in Keras.
    """
    row = int(inputs.shape[0] == 0)  # an empty batch is padded to one row
    if mask is None:
        if inputs.shape[1] and not row:
            return recurrent(inputs, training=training)
        mask = ops.ones_like(inputs[..., 0], dtype="bool")
    extra = 0 if inputs.shape[1] else 1  # 1 if T is 0 or unknown
    read, real = (
        ops.pad(inputs, ((0, row), (0, extra), (0, 0))),
        ops.pad(mask, ((0, row), (0, extra))),
    )
    # (B + row, T + extra, features)
    states = recurrent(read, mask=with_one_real_position(real), training=training)
    return zero_padding(states[: -row or None, : -extra or None], mask)
