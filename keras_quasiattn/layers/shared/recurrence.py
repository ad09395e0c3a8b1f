"""Recurrent layers: how they are made, and how they run under the law of masks."""

import weakref
from typing import Any

import keras
from keras import ops

from keras_quasiattn.ops.masking import zero_padding

Tensor = Any


def readable(mask: Tensor) -> Tensor:
    """`mask` (B, T), and the first position of a row that has nothing real, since cuDNN refuses such a row.

    What is read there must be left out afterwards.

    >>> readable(np.array([[False, True], [False, False]])).numpy().tolist()
    [[False, True], [True, False]]
    """
    first = ops.equal(ops.cumsum(ops.ones_like(mask, dtype="int32"), axis=1), 1)
    return ops.logical_or(mask, ops.logical_and(first, ~ops.any(mask, axis=1, keepdims=True)))


def bidirectional(recurrent: keras.layers.Layer, **options: Any) -> keras.layers.Bidirectional:
    """Keras' `Bidirectional` of a recurrent layer, which may be made while a model is loaded.

    Keras copies `recurrent` through its configuration, and while it loads a model it takes all that was serialized at
    one address for one object. If `recurrent` were freed, the next layer made at its address would get the same copy
    for both directions, and be refused. So it lives as long as the layer made of it.

    Args:
        recurrent: a layer without weights yet.
        options: as Keras' `Bidirectional` has them.

    Returns:
        The layer, without weights yet: (B, T, D) to (B, T, 2·units), or what `recurrent` and `merge_mode` make of it.
    """
    layer = keras.layers.Bidirectional(recurrent, **options)
    weakref.finalize(layer, lambda kept: None, recurrent).atexit = False
    return layer


def run_recurrent(
    recurrent: keras.layers.Layer, inputs: Tensor, mask: Tensor | None, training: bool | None = None
) -> Tensor:
    """The states (B, T, units) of a recurrent layer that returns sequences, exact zeros at masked positions.

    A masked position is passed over, as if it were deleted. B and T may be 0, which Keras' own layers refuse, and a row
    may have nothing that is real, which cuDNN refuses.

    Args:
        recurrent: a built layer, perhaps bidirectional.
        inputs: (B, T, D), zeros at masked positions.
        mask: boolean (B, T), True = real; or None.
        training: as Keras has it.
    """
    row = int(inputs.shape[0] == 0)  # one more than there are
    if mask is None:
        if inputs.shape[1] and not row:
            return recurrent(inputs, training=training)
        mask = ops.ones_like(inputs[..., 0], dtype="bool")
    extra = 0 if inputs.shape[1] else 1  # no position, or as many as the call brings
    read, real = (
        ops.pad(inputs, ((0, row), (0, extra), (0, 0))),
        ops.pad(mask, ((0, row), (0, extra))),
    )
    states = recurrent(read, mask=readable(real), training=training)
    return zero_padding(states[: -row or None, : -extra or None], mask)
