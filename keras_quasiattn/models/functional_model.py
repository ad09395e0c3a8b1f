"""What the models of this package share: a functional graph that can be rebuilt from its constructor's arguments."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import keras


class FunctionalModel(keras.Model):
    """A functional model whose configuration is its constructor's arguments.

    A subclass's constructor sets `self._arguments`, hands its layers to `_hold`, and ends with
    `super().__init__(inputs=…, outputs=…, **kwargs)` and `self.dtype_policy = policy`.
    """

    _arguments: dict[str, Any]

    def _hold(self, **layers: Any) -> None:
        """Makes each layer, or list of layers, the attribute of its name.

        The functional graph tracks them; a PyTorch module takes none before its own constructor has run.
        """
        for name, value in layers.items():
            object.__setattr__(self, name, value)

    def get_config(self) -> dict[str, Any]:
        """Every constructor argument."""
        policy = keras.dtype_policies.serialize(self.dtype_policy)
        return {"name": self.name, "trainable": self.trainable, "dtype": policy, **self._arguments}


def arguments_of(constructor: Callable[..., None], given: Mapping[str, Any]) -> dict[str, Any]:
    """What a constructor was given for each of its named arguments, from its `locals()`."""
    parameters = inspect.signature(constructor).parameters
    return {name: given[name] for name in parameters if name not in ("self", "kwargs")}


def policy_of(dtype: Any) -> keras.DTypePolicy:
    """The policy that is meant by a model's `dtype` argument."""
    return keras.dtype_policies.get(dtype or keras.config.dtype_policy())
