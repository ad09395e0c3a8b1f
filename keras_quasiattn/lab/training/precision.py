"""The precision policies of a run."""

import contextlib
from collections.abc import Iterator

import keras

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.training.config import POLICIES


@contextlib.contextmanager
def dtype_policy(name: str) -> Iterator[None]:
    """Set Keras' global dtype policy within the `with` block.

    Args:
        name: one of `POLICIES`; weights are float32 under all of them.

    Raises:
        UserError: an unknown policy.
    """
    if name not in POLICIES:
        raise UserError.unknown("precision policy", name, POLICIES)
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(name)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)
