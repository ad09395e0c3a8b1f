"""Run a call of compiled code on the backend of Keras."""

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import keras

from keras_quasiattn.core.compiled.call import Call

Tensor = Any

_backend = import_module(f"{__package__}.{keras.backend.backend()}")


def run(call: Call, tensors: Sequence[Tensor], masks: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Return the outputs of `call`, with gradients for `tensors`."""
    return tuple(_backend.outputs(call, list(tensors), list(masks)))
