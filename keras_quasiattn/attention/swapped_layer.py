"""Recreate layers, what is inside them, and whole models with another attention."""

import copy
import dataclasses
import functools
import inspect
from typing import Any

import keras

from keras_quasiattn.attention.base import ATTENTIONS
from keras_quasiattn.attention.hooked_layer import HookedLayer, can_be_hooked, hook
from keras_quasiattn.attention.multi_head import MultiHeadQuasiAttention
from keras_quasiattn.core.configured import QuantizedParts

# The constructor arguments that all multi-head layers share; the others define one attention.
_INIT = inspect.signature(MultiHeadQuasiAttention.__init__)
_SHARED = {*_INIT.parameters, "name", "trainable", "dtype"}
# The arguments of `keras.layers.GroupQueryAttention` that have another name in multi-head layers.
_NAMES_HERE = {"num_query_heads": "num_heads", "head_dim": "key_dim"}
# The forms of `multi_head.Start` by the names under which `models.swap_attention` offers them.
STARTS = {"projections": None, "unchanged": "added", "blend": "blended"}
# Keras' own attentions with heads.
WITH_HEADS = (keras.layers.MultiHeadAttention, keras.layers.GroupQueryAttention)
# Arguments that change both attentions of a layer.
_COMMON = {"attention_axes", "rotary_base", "sliding_window", "use_gate"}
# The configuration entries by which a block or model of this package chooses its attention.
_CHOICE = {"attention", "attention_options", "num_heads"}


@dataclasses.dataclass(frozen=True)
class Swap:
    """Which attention replaces others.

    `attention` is a name in `ATTENTIONS`, with further `options` of that layer. `holders` are the
    `holder_name` of each layer that holds attention to swap, and `start`, a key of `STARTS`, says
    what the new layers compute at first.
    """

    attention: str
    options: dict[str, Any]
    holders: tuple[str, ...] = ()
    start: str = "projections"

    @classmethod
    def saved(cls, config: dict[str, Any]) -> "Swap":
        """Return the swap in the configuration of a copy."""
        given = {name: config[name] for name in config if name not in ("layer", "model")}
        return cls(**{**given, "holders": tuple(config["holders"])})

    def applies_to(self, layer: keras.layers.Layer) -> bool:
        """Return whether this is an attention layer that the swap changes."""
        is_hooked = isinstance(layer, HookedLayer)
        return self.replaces(layer) or can_be_hooked(layer) or (is_hooked and self._differs(layer))

    def replaces(self, layer: keras.layers.Layer) -> bool:
        """Return whether this is Keras' multi-head attention, or another one of this package."""
        known = (*WITH_HEADS, *ATTENTIONS.values())
        return type(layer) in known and self._differs(layer)

    def _differs(self, layer: keras.layers.Layer) -> bool:
        """Return whether an attention layer computes another attention."""
        return attention_class(layer) is not ATTENTIONS[self.attention]

    def chooses(self, layer: keras.layers.Layer) -> bool:
        """Return whether this is a block or model whose configuration names its attention."""
        return layer.get_config().keys() >= _CHOICE

    def copy(self, layer: keras.layers.Layer) -> keras.layers.Layer:
        """Recreate the layer from its configuration, unbuilt, with all its attention swapped.

        A layer of another package swaps each attention as soon as it assigns it to an attribute.
        """
        made = self._recreated(layer)
        # The configuration lacks the name if the class of the layer has no `get_config`
        made.name = layer.name
        return made

    def _recreated(self, layer: keras.layers.Layer) -> keras.layers.Layer:
        config = layer.get_config()
        if self.replaces(layer):
            return self._attention_layer(layer)
        if self.chooses(layer):
            return type(layer).from_config({**config, **self._choice(config)})
        if isinstance(layer, SwappedLayer):
            swap = layer._swap
            if self.holds(layer):
                self.check_start(layer)
                swap = self
            return swap.make_block(original_class(layer), config["layer"])
        if not self.holds(layer):
            return type(layer).from_config(config)
        return self.make_block(type(layer), keras.saving.serialize_keras_object(layer))

    def make_block(self, kind: type[Any], serialized: dict[str, Any]) -> keras.layers.Layer:
        """Make a layer of a subclass of `kind` that swaps the attention assigned to it."""
        made = self.block_class(kind, serialized)
        # A copy, because Keras' wrappers and models change what they read
        config = copy.deepcopy(serialized["config"])
        layer: Any = super(SwappedLayer, made).from_config(config)  # type: ignore[misc]
        layer.swap_collected()
        return layer

    def block_class(self, kind: type[Any], serialized: dict[str, Any]) -> Any:
        """Return the subclass of `kind` for a layer that was `serialized` before the swap."""

        @functools.wraps(kind.build)
        def build(layer: Any, *args: Any, **kwargs: Any) -> None:
            kind.build(layer, *args, **kwargs)
            layer.swap_collected()
            for value, made in vars(layer).pop("_swapped", {}).values():
                if value.built and not made.built:  # `kind.build` has kept and built the original
                    build_like(made, value)
            for one in filter(can_be_hooked, layer._flatten_layers()):
                self.hook(one)

        members = {"_swap": self, "_serialized": serialized, "build": build}
        made: Any = type(kind.__name__, (SwappedLayer, kind), members)
        made.__module__ = kind.__module__
        _register(made)
        return made

    def check_start(self, layer: "SwappedLayer | SwappedModel") -> None:
        """Raise a `ValueError` if the swap cannot start from the attention of a swapped layer."""
        if self.start != "projections":
            raise ValueError(
                f"`model` must not have been swapped before for start={self.start!r}. Swap the "
                f"original model. Received: {layer.name!r}, swapped to {layer._swap.attention!r}"
            )

    def hook(self, layer: keras.layers.Layer) -> None:
        """Make the heads of a layer that `can_be_hooked` compute the new attention."""
        made: Any = ATTENTIONS[self.attention]
        hook(layer, functools.partial(made, **self._arguments({}, "softmax", {})))
        if isinstance(layer, SwappedLayer):
            _register(type(layer))

    def assigned(self, value: Any) -> Any:
        """Return the replacement for a layer that a block assigns."""
        if self._is_done(value):
            return value
        if self.replaces(value):
            made = self._attention_layer(value)
            if value.built:
                build_like(made, value)
            return made
        if isinstance(value, keras.Sequential) or is_graph(value):
            return self._model(value)
        return self.copy(value) if self.holds(value) else value

    def holds(self, layer: keras.layers.Layer) -> bool:
        """Return whether this is a layer with attention to swap in it."""
        return holder_name(layer) in self.holders

    def _is_done(self, layer: keras.layers.Layer) -> bool:
        """Return whether this is a copy that was made for this swap."""
        return getattr(layer, "_swap", None) == self

    def _model(self, model: keras.Model) -> keras.Model:
        """Return a copy of a functional or sequential model that a block assigns, if it attends."""
        # Some layers make their attention only when they are built
        if not any(
            self.replaces(one) or (self.holds(one) and not self._is_done(one))
            for one in model._flatten_layers()
        ):
            return model
        if makes_its_layers(model):
            return made_anew(model, self)
        # Keras asks once for each call of a shared layer
        return keras.models.clone_model(model, clone_function=functools.cache(self.assigned))

    def _attention_layer(self, layer: keras.layers.Layer) -> keras.layers.Layer:
        given = layer.get_config()
        name, options = "softmax", {}
        config = {_NAMES_HERE.get(name, name): value for name, value in given.items()}
        if isinstance(layer, MultiHeadQuasiAttention):
            config = {name: value for name, value in given.items() if name in _SHARED}
            options = {name: value for name, value in given.items() if name not in _SHARED}
            (name,) = (name for name, kind in ATTENTIONS.items() if kind is type(layer))
        return ATTENTIONS[self.attention](**{**config, **self._arguments(config, name, options)})

    def _arguments(
        self, kept: dict[str, Any], attention: str, options: dict[str, Any]
    ) -> dict[str, Any]:
        """Return the constructor arguments in which the new layer differs from the given one."""
        form = STARTS[self.start]
        if form is None or (attention == self.attention and self._adds_nothing):
            return {**self.options, "start": None} if kept.get("start") else self.options
        for option in _COMMON & self.options.keys():
            if (self.options[option] or None) != (kept.get(option) or None):
                raise ValueError(
                    f"`{option}` must stay as it is with `start={self.start!r}`, because both "
                    f"attentions share it. Received: {option}={self.options[option]!r}"
                )
        if kept.get("start"):
            raise ValueError(
                f"`model` must not have been swapped with `start={form}` before. Swap the original "
                f"model. Received: a layer of {attention!r} with start={kept['start']}"
            )
        start = {"attention": attention, "options": options or None, "form": form}
        return {**self.options, "start": start}

    @property
    def _adds_nothing(self) -> bool:
        """Return whether the options keep the attention as it is; factors are learned from 1."""
        fields = dataclasses.fields(ATTENTIONS[self.attention].options_class)
        return all(
            self.options.get(one.name, one.default) in ("learned", one.default) for one in fields
        )

    def _choice(self, config: dict[str, Any]) -> dict[str, Any]:
        """Return the constructor arguments of a block that choose this attention."""
        attention = config["attention"]
        if isinstance(attention, dict):
            layer = keras.saving.deserialize_keras_object(attention)
            return {"attention": self._attention_layer(layer)} if self.replaces(layer) else {}
        if attention == self.attention:
            return {}
        given = config["attention_options"] or {}
        kept = {name: value for name, value in given.items() if name in _SHARED}
        options = {name: value for name, value in given.items() if name not in _SHARED}
        changed = self._arguments(kept, attention, options)
        return {"attention": self.attention, "attention_options": {**kept, **changed}}


@keras.saving.register_keras_serializable("keras_quasiattn")
class SwappedLayer(QuantizedParts):
    """Mixin, listed first, for a copy whose original class does not know about the swap.

    It is saved as the original layer's configuration and the swap.
    """

    _swap: Swap
    _serialized: dict[str, Any]
    name: str

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, self._assigned(value))

    def _assigned(self, value: Any) -> Any:
        """Return `value` with its attention swapped, or `value` itself if it has none."""
        if isinstance(value, keras.layers.Layer):
            # A layer that is assigned twice is swapped once. Keras would track an attribute.
            known = self.__dict__.setdefault("_swapped", {})
            if id(value) not in known:
                known[id(value)] = (value, self._swap.assigned(value))
            return known[id(value)][1]
        if type(value) not in (list, tuple, dict):
            return value
        held = list(value.values() if isinstance(value, dict) else value)
        made = list(map(self._assigned, held))
        if all(one is other for one, other in zip(held, made, strict=True)):
            return value
        return type(value)(zip(value, made, strict=True) if isinstance(value, dict) else made)

    def swap_collected(self) -> None:
        """Swap what was put into lists and dictionaries after these became attributes."""
        for name, value in list(vars(self).items()):
            if not name.startswith("_self_"):  # TensorFlow's record of all attributes
                self._swap_in(value)

    def _swap_in(self, collection: Any) -> None:
        # Keras makes other classes of the lists and dictionaries whose layers it tracks
        kind: Any = list if isinstance(collection, list) else dict
        tracker: Any = getattr(collection, "tracker", None)
        if not isinstance(collection, kind) or tracker is not vars(self)["_tracker"]:
            return
        for place, value in list(enumerate(collection) if kind is list else collection.items()):
            if not isinstance(value, keras.layers.Layer):
                self._swap_in(value)
                continue
            made = self._assigned(value)
            if made is value:
                continue
            if tracker.is_in_store("layers", made):
                tracker.untrack(value)
            elif tracker.is_in_store("layers", value):
                tracker.replace_tracked_value("layers", value, made)  # in the order of the original
            kind.__setitem__(collection, place, made)

    def get_config(self) -> dict[str, Any]:
        """Return the layer's configuration as it was before the swap, and the swap."""
        config = dict(self._serialized["config"])
        if "trainable" in config:
            config["trainable"] = self.trainable  # type: ignore[attr-defined]
        layer = {**self._serialized, "config": config, "build_config": None}
        return {"layer": layer, **dataclasses.asdict(self._swap)}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """Recreate the layer with its swapped attention."""
        original = _made(config["layer"])  # for its class
        return Swap.saved(config).make_block(type(original), config["layer"])


def _register(kind: type[Any]) -> None:
    # All such classes share a name: what they have in common, `from_config`, is in the base.
    keras.saving.register_keras_serializable("keras_quasiattn", "SwappedLayer")(kind)


def attention_class(layer: keras.layers.Layer) -> type[Any]:
    """Return the class of an attention layer, or of the layer that a hooked one gets heads from."""
    return layer.heads.kind if isinstance(layer, HookedLayer) else type(layer)


def original_class(layer: keras.layers.Layer) -> type[Any]:
    """Return the class of a layer, without the swap of its copy."""
    kind = type(layer)
    while issubclass(kind, (SwappedLayer, HookedLayer)):
        kind = kind.__bases__[1]
    return kind


def build_like(layer: Any, other: Any) -> None:
    """Build a layer for the shapes of another one, and with the paths of its weights."""
    # Keras would take the path from the layer whose call or `build` is running, if any
    layer._parent_path = other._parent_path
    layer.build_from_config(other.get_build_config())


def is_graph(layer: keras.layers.Layer) -> bool:
    """Return whether this is a functional model, or a sequential model that is built."""
    return isinstance(layer, keras.Model) and hasattr(layer, "inputs")


def holder_name(layer: keras.layers.Layer) -> str:
    """Return the name under which the layer's own class is saved."""
    return keras.saving.get_registered_name(original_class(layer))


@keras.saving.register_keras_serializable("keras_quasiattn")
class SwappedModel(QuantizedParts):
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
        made = _made(config["model"], custom_objects)
        return with_attention(made, Swap.saved(config), config["model"])


def makes_its_layers(model: keras.Model) -> bool:
    """Return whether the model's class makes all layers from arguments, as KerasHub's models do."""
    return "layers" not in model.get_config()  # as in the configuration of a graph


def made_anew(model: keras.Model, swap: Swap) -> keras.Model:
    """Recreate the model from its class, with the new attention and new weights."""
    config = keras.saving.serialize_keras_object(model)
    if isinstance(model, SwappedModel):
        swap.check_start(model)
        config = config["config"]["model"]
    made = _made(config)
    preprocessor = getattr(model, "preprocessor", None)
    if preprocessor is not None:  # with its vocabulary, which is not in the configuration
        made.preprocessor = preprocessor
    return with_attention(made, swap, config)


def with_attention(model: keras.Model, swap: Swap, serialized: dict[str, Any]) -> keras.Model:
    """Replace the attention in a model and in its nested layers and models, in place.

    Each of them that holds attention remembers the swap, so that it can be cloned or saved alone.
    """
    for layer in model._flatten_layers():  # parents come first; Keras has no public way to list
        if swap.replaces(layer):
            _become(layer, swap.assigned(layer))
        elif can_be_hooked(layer):
            swap.hook(layer)
        elif layer is model:
            layer.__class__ = _model_class(type(layer), swap, serialized)
        else:
            _remember(layer, swap)
    return model


def _remember(layer: keras.layers.Layer, swap: Swap) -> None:
    """Let a layer or nested model, whose attention is about to be swapped, be saved with `swap`."""
    if is_graph(layer):
        inside = layer._flatten_layers(include_self=False)
        if not (any(map(swap.applies_to, inside)) and makes_its_layers(layer)):
            return
        make: Any = functools.partial(_model_class, swap=swap)
    elif swap.holds(layer):
        make = swap.block_class
    else:
        return
    try:
        own = keras.saving.serialize_keras_object(layer)
    except Exception:  # as for some of KerasHub's, which cannot be cloned before the swap, either
        return
    layer.__class__ = make(type(layer), serialized=own)


def _model_class(kind: type[Any], swap: Swap, serialized: dict[str, Any]) -> Any:
    members = {"_swap": swap, "_serialized": serialized, "__module__": kind.__module__}
    made: Any = type(kind.__name__, (SwappedModel, kind), members)
    # All such classes share a registered name; `from_config` in the base class serves all of them.
    keras.saving.register_keras_serializable("keras_quasiattn", "SwappedModel")(made)
    return made


def _made(serialized: dict[str, Any], custom_objects: Any = None) -> Any:
    # A copy: KerasHub's tasks put objects into what they read, and Keras' wrappers take it away
    return keras.saving.deserialize_keras_object(copy.deepcopy(serialized), custom_objects)


def _become(layer: keras.layers.Layer, other: keras.layers.Layer) -> None:
    """Turn a layer into another one in place, for all attributes, lists and graphs that hold it."""
    names = vars(layer).keys() & {"_inbound_nodes", "_outbound_nodes"}
    nodes = {name: vars(layer)[name] for name in names}
    vars(layer).clear()
    vars(layer).update({**vars(other), **nodes})
    object.__setattr__(layer, "__class__", type(other))
