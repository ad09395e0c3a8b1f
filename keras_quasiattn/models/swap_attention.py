"""Replaces Keras' attention layers in a model by those of this package."""

import warnings
from collections.abc import Iterator
from typing import Any

import keras

from keras_quasiattn.layers.shared.mechanisms import MULTI_HEAD_LAYERS
from keras_quasiattn.ops.checks import check_choice

# Attributes of sublayers that both layers have; the last one only where `use_gate` is set.
_PROJECTIONS = ("query_dense", "key_dense", "value_dense", "output_dense", "_gate_dense")


def swap_attention(model: keras.Model, attention: str = "coda", **options: Any) -> keras.Model:
    """Copies a model, replacing `keras.layers.MultiHeadAttention` by `MultiHeadCoDA` or another.

    Names, projection weights, masks and calls stay the same, also in nested functional and
    sequential models. All other layers keep their weights. The original model is not changed.
    Weights trained with softmax are a good start only for the projections of another attention, not
    for its outputs: train the copy.

    Two kinds of attention are kept as they are, and a warning names them. Attention inside a layer
    of another class cannot be reached by rebuilding the graph. Subclasses of `MultiHeadAttention`
    may behave differently.

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
            calls one with an argument that the new layer does not accept, such as a float mask; or
            if `attention` is unknown.

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
    swappable = [layer for layer in found if type(layer) is keras.layers.MultiHeadAttention]
    kept = [f"{layer.name} ({type(layer).__name__})" for layer in found if _hides_attention(layer)]
    if kept:
        warnings.warn(
            f"swap_attention leaves these layers unchanged: {', '.join(kept)}", stacklevel=2
        )
    if not swappable:
        raise ValueError(
            f"`model` {model.name!r} contains no keras.layers.MultiHeadAttention to swap. "
            f"Its layers: {', '.join(layer.name for layer in found)}"
        )
    copies: dict[int, keras.Layer] = {}

    def copy_of(layer: keras.Layer) -> keras.Layer:
        config = layer.get_config()
        made = (
            MULTI_HEAD_LAYERS[attention](**{**config, **options})
            if layer in swappable
            else type(layer).from_config(config)
        )
        copies[id(layer)] = made
        return made

    copy = keras.models.clone_model(model, clone_function=copy_of, recursive=True)
    for layer in found:
        if layer in swappable:
            _copy_projections(layer, copies[id(layer)])
        elif id(layer) in copies:
            copies[id(layer)].set_weights(layer.get_weights())
    return copy


def _layers(model: keras.Model) -> Iterator[keras.Layer]:
    """Yields the layers of a model, including those of nested functional and sequential models."""
    for layer in model.layers:
        if isinstance(layer, keras.Model) and hasattr(layer, "inputs"):
            yield from _layers(layer)
        else:
            yield layer


def _hides_attention(layer: keras.Layer) -> bool:
    """Whether this layer is, or contains, Keras attention that the swap leaves in place."""
    if type(layer) is keras.layers.MultiHeadAttention:
        return False
    # Keras has no public way to list the layers inside a layer.
    return any(
        isinstance(one, keras.layers.MultiHeadAttention)
        and not type(one).__module__.startswith("keras_quasiattn")
        for one in layer._flatten_layers()
    )


def _copy_projections(source: keras.Layer, target: keras.Layer) -> None:
    for name in _PROJECTIONS:
        if hasattr(source, name):
            getattr(target, name).set_weights(getattr(source, name).get_weights())
