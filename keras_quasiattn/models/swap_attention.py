"""From a model with Keras' attention to the same model with one of this package."""

import warnings
from collections.abc import Iterator
from typing import Any

import keras

from keras_quasiattn.layers.shared.mechanisms import MULTI_HEAD_LAYERS
from keras_quasiattn.ops.checks import check_choice

# Sublayers that both layers have, by attribute; the last one where `use_gate` is set.
_PROJECTIONS = ("query_dense", "key_dense", "value_dense", "output_dense", "_gate_dense")


def swap_attention(model: keras.Model, attention: str = "coda", **options: Any) -> keras.Model:
    """A copy of a model in which `MultiHeadCoDA`, or another layer, replaces `keras.layers.MultiHeadAttention`.

    Names, projection weights, masks and the calls stay as they were, in nested functional and sequential models too;
    all other layers keep their weights. The model itself is left alone. Softmax's weights are no good start for
    another attention's values, only for its projections: train the copy.

    Attention inside a layer of another class cannot be reached by rebuilding the graph, and subclasses of
    `MultiHeadAttention` may mean something else: both are kept as they are, and a warning names them.

    Args:
        model: a functional or sequential model, built.
        attention: name of the multi-head layer to take, as for `layers.TransformerEncoder`. Defaults to "coda".
        **options: arguments of that layer that `MultiHeadAttention` does not have, such as `gate_range`.

    Returns:
        The copy, not compiled.

    Raises:
        ValueError: the model is neither functional nor sequential, has no layer to swap, or calls one with what
            the new layer does not take, such as a float mask; or `attention` is not known.

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
        warnings.warn(f"swap_attention leaves these as they are: {', '.join(kept)}", stacklevel=2)
    if not swappable:
        raise ValueError(
            f"`model` {model.name!r} has no keras.layers.MultiHeadAttention of its own to swap. "
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
    """The layers of a model and of the functional and sequential models in it."""
    for layer in model.layers:
        if isinstance(layer, keras.Model) and hasattr(layer, "inputs"):
            yield from _layers(layer)
        else:
            yield layer


def _hides_attention(layer: keras.Layer) -> bool:
    """Whether this is softmax attention that is kept, or has some inside."""
    if type(layer) is keras.layers.MultiHeadAttention:
        return False
    # Keras has no public way to list the layers in a layer.
    return any(
        isinstance(one, keras.layers.MultiHeadAttention)
        and not type(one).__module__.startswith("keras_quasiattn")
        for one in layer._flatten_layers()
    )


def _copy_projections(source: keras.Layer, target: keras.Layer) -> None:
    for name in _PROJECTIONS:
        if hasattr(source, name):
            getattr(target, name).set_weights(getattr(source, name).get_weights())
