"""Copy a model whose class creates all its layers from arguments, with another attention."""

import copy
import dataclasses
from typing import Any

import keras

from keras_quasiattn.attention.hooked_layer import can_be_hooked
from keras_quasiattn.attention.swapped_layer import Swap


@keras.saving.register_keras_serializable("keras_quasiattn")
class SwappedModel:
    """Mixin, listed first, for a copied model; saved as original class, arguments and swap."""

    _swap: Swap
    _serialized: dict[str, Any]
    name: str

    def get_config(self) -> dict[str, Any]:
        """Return the model's configuration as it was before the swap, and the swap."""
        config = {**self._serialized["config"], "name": self.name}
        return {"model": {**self._serialized, "config": config}, **dataclasses.asdict(self._swap)}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        """Recreate the model with its swapped attention."""
        made_by = {name: config[name] for name in config if name != "model"}
        swap = Swap(**{**made_by, "holders": tuple(config["holders"])})
        return with_attention(_made(config["model"], custom_objects), swap, config["model"])


def makes_its_layers(model: keras.Model) -> bool:
    """Return whether the model's class makes all layers from arguments, as KerasHub's models do."""
    return "layers" not in model.get_config()  # as in the configuration of a graph


def made_anew(model: keras.Model, swap: Swap) -> keras.Model:
    """Recreate the model from its class, with the new attention and new weights."""
    config = keras.saving.serialize_keras_object(model)
    if isinstance(model, SwappedModel):
        if swap.start != "projections":
            raise ValueError(
                f"`model` must not have been swapped before for start={swap.start!r}. Swap the "
                f"original model. Received: {model.name!r}, swapped to {model._swap.attention!r}"
            )
        config = config["config"]["model"]
    made = _made(config)
    preprocessor = getattr(model, "preprocessor", None)
    if preprocessor is not None:  # with its vocabulary, which is not in the configuration
        made.preprocessor = preprocessor
    return with_attention(made, swap, config)


def with_attention(model: keras.Model, swap: Swap, serialized: dict[str, Any]) -> keras.Model:
    """Replace the attention in a model and in its nested layers, in place."""
    for layer in model._flatten_layers():  # Keras has no public way to list the layers in a layer
        if swap.replaces(layer):
            _become(layer, swap.assigned(layer))
        elif can_be_hooked(layer):
            swap.hook(layer)
    kind = type(model)
    members = {"_swap": swap, "_serialized": serialized, "__module__": kind.__module__}
    made: Any = type(kind.__name__, (SwappedModel, kind), members)
    # All such classes share a registered name; `from_config` in the base class serves all of them.
    keras.saving.register_keras_serializable("keras_quasiattn", "SwappedModel")(made)
    model.__class__ = made
    return model


def _made(serialized: dict[str, Any], custom_objects: Any = None) -> Any:
    # KerasHub's tasks put objects into the configuration that they are made from
    return keras.saving.deserialize_keras_object(copy.deepcopy(serialized), custom_objects)


def _become(layer: keras.layers.Layer, other: keras.layers.Layer) -> None:
    """Turn a layer into another one in place, for all attributes, lists and graphs that hold it."""
    nodes = {
        name: value
        for name, value in vars(layer).items()
        if name in ("_inbound_nodes", "_outbound_nodes")
    }
    vars(layer).clear()
    vars(layer).update({**vars(other), **nodes})
    object.__setattr__(layer, "__class__", type(other))
