"""The base classes of the models: functional graphs rebuilt from their constructor arguments."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
from keras import ops

from keras_quasiattn.core.arguments import check, check_positive_integer, check_rate
from keras_quasiattn.core.configured import QuantizedParts

Tensor = Any


class FunctionalModel(QuantizedParts, keras.Model):
    """A functional model whose config is its constructor arguments.

    A subclass's constructor starts with `make = self._begin(locals())`, passes its layers to
    `_hold`, and ends with `self._end(inputs, outputs, kwargs)`.
    """

    _arguments: dict[str, Any]
    _policy: keras.DTypePolicy

    def _begin(
        self, given: Mapping[str, Any], *, positive: Sequence[str] = (), rates: Sequence[str] = ()
    ) -> Callable[..., Any]:
        """Keep the arguments of a constructor, and return the `layer_maker` of its dtype policy.

        `given` are its `locals()` before any other variable is set. Of the arguments, some must be
        `positive` integers, others `rates` in [0, 1).
        """
        for name in positive:
            check_positive_integer(given[name], name)
        for name in rates:
            check_rate(given[name], name)
        others = ("self", "kwargs", "__class__")
        self._arguments = {name: value for name, value in given.items() if name not in others}
        dtype = given["kwargs"].pop("dtype", None) or keras.config.dtype_policy()
        self._hold(_policy=keras.dtype_policies.get(dtype))
        return layer_maker(self._policy)

    def _hold(self, **layers: Any) -> None:
        """Store each layer, or list of layers, as the attribute of its name.

        The functional graph tracks the layers. Normal assignment would fail here: a PyTorch module
        accepts no submodules before its own constructor has run. The files of saved models name
        weights by these attributes.
        """
        for name, value in layers.items():
            object.__setattr__(self, name, value)

    def _end(self, inputs: Any, outputs: Any, kwargs: dict[str, Any]) -> None:
        super().__init__(inputs=inputs, outputs=outputs, **kwargs)
        self.dtype_policy = self._policy

    def get_config(self) -> dict[str, Any]:
        """Return the constructor arguments."""
        policy = keras.dtype_policies.serialize(self.dtype_policy)
        return {"name": self.name, "trainable": self.trainable, "dtype": policy, **self._arguments}


class EmbeddingModel(FunctionalModel):
    """A functional model with one embedding of words, `self._embedding`."""

    @property
    def embedding(self) -> keras.layers.Embedding:
        """The embedding layer; its table can be set to pretrained word vectors."""
        return self._embedding

    def _hold_embedding(self, make: Callable[..., Any]) -> None:
        """Make the embedding that `self._arguments` describe."""
        names = ("vocabulary_size", "embedding_dim")
        size, width = (check_positive_integer(self._arguments[name], name) for name in names)
        train = self._arguments["train_embedding"]
        layer = make(keras.layers.Embedding, "embedding", size, width, trainable=train)
        self._hold(_embedding=layer)


def layer_maker(policy: keras.DTypePolicy) -> Callable[..., Any]:
    """Return `make(kind, name, *arguments, **options)`, which makes layers with this policy."""

    def make(kind: Callable[..., Any], name: str, *arguments: Any, **options: Any) -> Any:
        return kind(*arguments, **{"dtype": policy, "name": name, **options})

    return make


def is_real(ids: Tensor) -> Tensor:
    """Return the boolean mask of the ids that are not 0, the id of padding."""
    return ops.not_equal(ids, 0)


def id_inputs(*names: str) -> dict[str, Tensor]:
    """Return symbolic ids (B, any length) by name."""
    return {name: keras.Input((None,), dtype="int32", name=name) for name in names}


def check_token_ids(vocabulary_size: Any) -> None:
    """Raise a `ValueError` unless a vocabulary has ids for padding (0) and the end (1)."""
    size = check_positive_integer(vocabulary_size, "vocabulary_size")
    check(size > 1, size, "vocabulary_size", "above 1")
