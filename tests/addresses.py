"""Make Keras see reused addresses: an `id` that reuses the address of a freed object."""

import gc
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import keras
import pytest


class ReusedAddresses:
    """The worst possible `id`: a new layer gets the address of the layer that was freed last.

    >>> address, first = ReusedAddresses(), keras.layers.Layer()
    >>> before = address(first)
    >>> del first
    >>> address(keras.layers.Dense(1)) == before
    True
    """

    def __init__(self) -> None:
        self.owners: list[tuple[weakref.ref, bool]] = []

    def __call__(self, thing: Any) -> int:
        gc.collect()
        is_layer = isinstance(thing, keras.layers.Layer)
        free = []
        for address, (reference, was_layer) in enumerate(self.owners):
            owner = reference()
            if owner is thing:
                return address
            if owner is None and was_layer == is_layer:
                free.append(address)
        address = free[-1] if free else len(self.owners)
        self.owners[address : address + 1] = [(weakref.ref(thing), is_layer)]
        return address


@contextmanager
def used_again() -> Iterator[None]:
    """Patch Keras' `id` in the `with` block, which must serialize something."""
    address = ReusedAddresses()
    gc.collect()
    gc.freeze()  # or each collection would look at all of TensorFlow
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(keras.saving.serialize_keras_object.__globals__, "id", address)
            yield
    finally:
        gc.unfreeze()
    assert address.owners
