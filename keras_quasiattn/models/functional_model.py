"""The base classes of the models: functional graphs rebuilt from their constructor arguments."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
from keras import ops

from keras_quasiattn.core.arguments import check_positive_integer, check_rate
from keras_quasiattn.core.quantized_parts import QuantizedParts

Tensor = Any


class FunctionalModel(QuantizedParts, keras.Model):
    """A functional model whose config is its constructor arguments.

    A subclass's constructor sets `self._arguments`, passes its layers to `_hold`, and ends with
    `super().__init__(inputs=…, outputs=…, **kwargs)` and `self.dtype_policy = policy`.
    """

    _arguments: dict[str, Any]

    def _hold(self, **layers: Any) -> None:
        """Store each layer, or list of layers, as the attribute of its name.

        The functional graph tracks the layers. Normal assignment would fail here: a PyTorch module
        accepts no submodules before its own constructor has run. The files of saved models name
        weights by these attributes.
        """
        for name, value in layers.items():
            object.__setattr__(self, name, value)

    def get_config(self) -> dict[str, Any]:
        """Return the constructor arguments."""
        policy = keras.dtype_policies.serialize(self.dtype_policy)
        return {"name": self.name, "trainable": self.trainable, "dtype": policy, **self._arguments}


class EmbeddingModel(FunctionalModel):
    """A functional model that reads words through one embedding, which is `self._embedding`."""

    @property
    def embedding(self) -> keras.layers.Embedding:
        """The embedding layer; its table can be set to pretrained word vectors."""
        return self._embedding

    def _hold_embedding(self, policy: keras.DTypePolicy) -> None:
        """Make the embedding that `self._arguments` describe."""
        arguments = self._arguments
        embedding = keras.layers.Embedding(
            check_positive_integer(arguments["vocabulary_size"], "vocabulary_size"),
            check_positive_integer(arguments["embedding_dim"], "embedding_dim"),
            trainable=arguments["train_embedding"],
            dtype=policy,
            name="embedding",
        )
        self._hold(_embedding=embedding)


def arguments_of(
    constructor: Callable[..., None],
    given: Mapping[str, Any],
    *,
    positive: Sequence[str] = (),
    rates: Sequence[str] = (),
) -> dict[str, Any]:
    """Return the arguments that a constructor was given, by name.

    Args:
        constructor: the constructor.
        given: its `locals()`.
        positive: arguments that must be positive integers.
        rates: arguments that must be in [0, 1).

    Raises:
        ValueError: if an argument is out of range.
    """
    for name in positive:
        check_positive_integer(given[name], name)
    for name in rates:
        check_rate(given[name], name)
    parameters = inspect.signature(constructor).parameters
    return {name: given[name] for name in parameters if name not in ("self", "kwargs")}


def policy_of(dtype: Any) -> keras.DTypePolicy:
    """Return the policy for a model's `dtype` argument; None means the global policy."""
    return keras.dtype_policies.get(dtype or keras.config.dtype_policy())


def layer_maker(policy: keras.DTypePolicy) -> Callable[..., Any]:
    """Return `make(kind, name, *arguments, **options)`, which makes layers with this policy."""

    def make(kind: Callable[..., Any], name: str, *arguments: Any, **options: Any) -> Any:
        return kind(*arguments, **{"dtype": policy, "name": name, **options})

    return make


def is_real(ids: Tensor) -> Tensor:
    """Return the boolean mask of the ids that are not 0, the id of padding."""
    return ops.not_equal(ids, 0)


def check_token_ids(vocabulary_size: Any) -> None:
    """Raise a `ValueError` unless a vocabulary has ids for padding (0) and the end (1)."""
    if check_positive_integer(vocabulary_size, "vocabulary_size") < 2:
        raise ValueError(
            f"`vocabulary_size` must be above 1. Received: vocabulary_size={vocabulary_size}"
        )
