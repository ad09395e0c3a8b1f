"""Replaces the attention layers in a model by those of another mechanism."""

import warnings
from collections.abc import Iterator
from typing import Any

import keras

from keras_quasiattn.layers.shared.mechanisms import MULTI_HEAD_LAYERS
from keras_quasiattn.layers.shared.multi_head_attention import MultiHeadQuasiAttention
from keras_quasiattn.layers.shared.swapped_layer import Swap, holder_name
from keras_quasiattn.ops.checks import check_choice

# Attributes of sublayers that both layers have; the last one only where `use_gate` is set.
_PROJECTIONS = ("query_dense", "key_dense", "value_dense", "output_dense", "_gate_dense")


def swap_attention(model: keras.Model, attention: str = "coda", **options: Any) -> keras.Model:
    """Copies a model, replacing its attention by `MultiHeadCoDA` or another multi-head layer.

    `keras.layers.MultiHeadAttention` and this package's multi-head layers are replaced wherever
    they stand: in the model, in nested functional and sequential models, in this package's blocks
    and Transformers, and in layers of your own or of other packages that hold them as attributes,
    or in lists, tuples or dictionaries that are attributes. Layers of the wanted kind stay.

    Names, projection weights, masks and calls stay the same. All other layers keep their weights.
    The original model is not changed. Weights trained with softmax are a good start only for the
    projections of another attention, not for its outputs: train the copy. In the copy, the class of
    a layer of your own is a subclass of it, which swaps the attention when the layer assigns it.

    What cannot be replaced is kept, and a warning names it with the reason: subclasses of
    `MultiHeadAttention` by others, which may compute something else, and attention that a layer
    holds in another way than above.

    Args:
        model: a built functional or sequential model.
        attention: name of the multi-head layer to use, as for `layers.TransformerEncoder`. Defaults
            to "coda".
        **options: arguments of that layer that `MultiHeadAttention` does not have, such as
            `gate_range`.

    Returns:
        The copy, not compiled.

    Raises:
        ValueError: if the model is neither functional nor sequential, has no layer to swap, or
            calls one with an argument that the new layer does not accept, such as a float mask; if
            `attention` is unknown; or if `options` change the shape of a projection.

    Example:
    >>> import keras
    >>> from keras_quasiattn.models import swap_attention
    >>> x = keras.Input((None, 8))
    >>> model = keras.Model(x, keras.layers.MultiHeadAttention(2, 4, name="attention")(x, x))
    >>> type(swap_attention(model, gate_range="centered").get_layer("attention")).__name__
    'MultiHeadCoDA'
    """
    if not isinstance(model, (keras.Sequential, keras.Model)) or not hasattr(model, "inputs"):
        raise ValueError(
            f"`model` must be a functional or sequential model. Received: {type(model).__name__}"
        )
    check_choice(attention, sorted(MULTI_HEAD_LAYERS), "attention")
    found = list(_layers(model))
    swap = Swap(attention, options)
    swap = Swap(attention, options, tuple(sorted(_holders(found, swap))))
    copies: dict[int, keras.Layer] = {}

    def copy_of(layer: keras.Layer) -> keras.Layer:
        copies[id(layer)] = swap.copy(layer)
        return copies[id(layer)]

    if swap.chooses(model):
        found = [model]
        copy = copy_of(model)
    else:
        copy = keras.models.clone_model(model, clone_function=copy_of, recursive=True)
    pairs = [(layer, copies[id(layer)]) for layer in found if id(layer) in copies]
    swapped = [_transfer(*pair) for pair in pairs]
    kept = "; ".join(reason for _, layer in pairs for reason in _kept(layer, swap))
    if not any(swapped):
        raise ValueError(
            f"`model` {model.name!r} contains no layer such as keras.layers.MultiHeadAttention to "
            f"swap for {attention!r}. Its layers: {', '.join(layer.name for layer in found)}"
            + (f". Unchanged: {kept}" if kept else "")
        )
    if kept:
        warnings.warn(f"swap_attention leaves these layers unchanged: {kept}", stacklevel=2)
    return copy


def _layers(model: keras.Model) -> Iterator[keras.Layer]:
    """Yields the layers of a model, including those of nested functional and sequential models."""
    for layer in model.layers:
        if isinstance(layer, keras.Model) and hasattr(layer, "inputs"):
            yield from _layers(layer)
        else:
            yield layer


def _holders(layers: list[keras.Layer], swap: Swap) -> set[str]:
    """Returns the names of all layers, those within layers included, that hold such attention."""
    return {
        holder_name(one)
        for layer in layers
        for one in layer._flatten_layers()  # Keras has no public way to list the layers in a layer
        if not isinstance(one, keras.Model)
        and not swap.applies_to(one)
        and any(map(swap.applies_to, one._flatten_layers()))
    }


def _attentions(layer: keras.Layer) -> list[keras.layers.MultiHeadAttention]:
    return [
        one for one in layer._flatten_layers() if isinstance(one, keras.layers.MultiHeadAttention)
    ]


def _transfer(source: keras.Layer, target: keras.Layer) -> bool:
    """Copies all weights, of swapped attention those of the projections; whether any is swapped."""
    _build_alike(source, target)
    attentions = list(zip(_attentions(source), _attentions(target), strict=True))
    for one, other in attentions:
        if type(one) is type(other):
            other.set_weights(one.get_weights())
            continue
        for name in _PROJECTIONS:
            if hasattr(one, name):
                _copy_projection(getattr(one, name), getattr(other, name), one.name)
    for weight, copied in zip(_other_weights(source), _other_weights(target), strict=True):
        # A copy, as training on JAX deletes the arrays that it starts from.
        copied.assign(keras.ops.copy(weight))
    return any(type(one) is not type(other) for one, other in attentions)


def _copy_projection(source: keras.Layer, target: keras.Layer, attention: str) -> None:
    shapes, needed = ([tuple(weight.shape) for weight in one.weights] for one in (source, target))
    if shapes != needed:
        raise ValueError(
            "`options` must keep the shapes of the projections, whose weights are kept. Received: "
            f"options with which {source.name!r} of {attention!r} has {needed} instead of {shapes}"
        )
    target.set_weights(source.get_weights())


def _build_alike(source: keras.Layer, target: keras.Layer) -> None:
    """Builds what a functional graph does not: layers inside one that tells its output's shape."""
    if source.built and not target.built:
        target.build_from_config(source.get_build_config())
    if not isinstance(source, keras.layers.MultiHeadAttention):
        inside = (
            one._flatten_layers(include_self=False, recursive=False) for one in (source, target)
        )
        for pair in zip(*inside, strict=True):
            _build_alike(*pair)


def _other_weights(layer: keras.Layer) -> list[keras.Variable]:
    """Returns the weights outside all attention layers, in the order of `layer.weights`."""
    attention = {id(weight) for one in _attentions(layer) for weight in one.weights}
    return [weight for weight in layer.weights if id(weight) not in attention]


def _kept(layer: keras.Layer, swap: Swap) -> Iterator[str]:
    """Yields, for each attention that a copied layer still has, its name and the reason."""
    for one in _attentions(layer):
        if swap.applies_to(one):
            reason = "its layer holds it neither as an attribute nor in a list or the like of one"
        elif not isinstance(one, MultiHeadQuasiAttention):
            reason = "a subclass of MultiHeadAttention may compute something else"
        else:
            continue
        within = "" if one is layer else f" in {layer.name} ({type(layer).__name__})"
        yield f"{one.name} ({type(one).__name__}){within}: {reason}"
