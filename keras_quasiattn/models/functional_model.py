"""The base class of the models: a functional graph that its constructor arguments can rebuild."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import keras

from keras_quasiattn.core.quantized_parts import QuantizedParts


class FunctionalModel(QuantizedParts, keras.Model):
    """A functional model whose config is its constructor arguments.

    A subclass's constructor sets `self._arguments`, passes its layers to `_hold`, and ends with
    `super().__init__(inputs=…, outputs=…, **kwargs)` and `self.dtype_policy = policy`.
    """

    _arguments: dict[str, Any]

    def _hold(self, **layers: Any) -> None:
        """Stores each layer, or list of layers, as the attribute of its name.

        The functional graph tracks the layers. Normal assignment would fail here: a PyTorch module
        accepts no submodules before its own constructor has run.
        """
        for name, value in layers.items():
            object.__setattr__(self, name, value)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor arguments."""
        policy = keras.dtype_policies.serialize(self.dtype_policy)
        return {"name": self.name, "trainable": self.trainable, "dtype": policy, **self._arguments}


def arguments_of(constructor: Callable[..., None], given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what each named argument of a constructor was given, from its `locals()`."""
    parameters = inspect.signature(constructor).parameters
    return {name: given[name] for name in parameters if name not in ("self", "kwargs")}


def policy_of(dtype: Any) -> keras.DTypePolicy:
    """Returns the policy for a model's `dtype` argument; None means the global policy."""
    return keras.dtype_policies.get(dtype or keras.config.dtype_policy())
