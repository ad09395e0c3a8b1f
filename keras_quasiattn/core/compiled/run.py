"""Run a call of compiled code on the backend of Keras."""

import math
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import keras
from keras import ops

from keras_quasiattn.core.compiled.call import Call

Tensor = Any

_backend = import_module(f"{__package__}.{keras.backend.backend()}")


def run(call: Call, tensors: Sequence[Tensor], masks: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Return the outputs of `call`, with gradients for `tensors`."""
    return tuple(_backend.outputs(call, list(tensors), list(masks)))


def shared_mask(mask: Tensor, lead: tuple[Any, ...]) -> dict[str, Tensor]:
    """Return the masks of a call for a mask that broadcasts to (*lead, T, S).

    One mask may serve several batches or heads. It is passed once, in "full_mask" (masks, T or 1, S
    or 1), with the index of the mask for each of B in "full_index".
    """
    shape = (1,) * (len(lead) + 2 - len(mask.shape)) + tuple(ops.shape(mask))
    count = math.prod(shape[:-2])
    numbers = ops.reshape(ops.arange(count, dtype="int32"), shape[:-2])
    return {
        "full_mask": ops.reshape(mask, (count, *shape[-2:])),
        "full_index": ops.reshape(ops.broadcast_to(numbers, lead), (-1,)),
    }
