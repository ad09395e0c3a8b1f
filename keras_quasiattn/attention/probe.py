"""Inspect what the attention layers of a model compute."""

import contextlib
import functools
import inspect
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import keras

from keras_quasiattn.attention.gated import Gates
from keras_quasiattn.attention.hooked_layer import HookedLayer
from keras_quasiattn.attention.multi_head import AttentionAxes, MultiHeadQuasiAttention
from keras_quasiattn.core.backend import functions_untraced
from keras_quasiattn.core.masks import causal_mask, combine_masks, real_rows, sliding_window_mask
from keras_quasiattn.core.recording import Recorded, record, recording

Tensor = Any


class AttentionMap(NamedTuple):
    """The matrices that one call of one attention layer computed.

    `layer` is its path in the model, or its name, `kind` its class, and `call` counts its calls
    from 0. `matrices` by name are (B, ..., N, T, S), (B, T, S) or (B, T): "similarity", "gate" and
    "weights" of CoDA; "weights", or "weights_first" and "weights_second", of softmax attention;
    also "weights_best" of attention flow, and "gates" of gated attention.
    """

    layer: str
    kind: str
    call: int
    matrices: dict[str, Recorded]


def attention_layers(layer: keras.Layer) -> dict[str, keras.Layer]:
    """Return all built layers that can return attention scores, by path, `layer` included.

    Layers that return the scores of layers inside them, such as Transformer blocks, are left out.

    >>> from keras_quasiattn.models import TextClassifier
    >>> list(attention_layers(TextClassifier(vocabulary_size=9, num_classes=2, units=2)))
    ['attention']
    """
    found: dict[str, keras.Layer] = {}
    for one in (layer, *_layers_inside(layer)):
        if one.built and _has_scores(one) and not any(map(_has_scores, _layers_inside(one))):
            path = name = one.path or one.name
            number = 2
            while path in found:
                path, number = f"{name}_{number}", number + 1
            found[path] = one
    return found


def _has_scores(layer: keras.Layer) -> bool:
    return "return_attention_scores" in inspect.signature(layer.call).parameters


def _layers_inside(layer: keras.Layer) -> list[keras.Layer]:
    # Keras has no public way to list the layers in a layer.
    return layer._flatten_layers(include_self=False)


def probe(layer: keras.Layer, *args: Any, **kwargs: Any) -> tuple[Any, list[AttentionMap]]:
    """Call a layer or model; return its output and what every attention layer in it computed.

    The output equals that of a plain call, up to rounding. Keras' own multi-head attention is seen
    too, so that a model can be compared with its copy from `swap_attention`. The maps are in the
    order in which the calls ended. See `watching` for backends, graphs and threads.

    >>> from keras_quasiattn.layers import CoDA
    >>> layer = CoDA(name="coda")
    >>> layer.build([(1, 3, 4), (1, 5, 4)])
    >>> _, (one,) = probe(layer, [np.ones((1, 3, 4), "float32"), np.ones((1, 5, 4), "float32")])
    >>> one.layer, one.kind, one.call, list(one.matrices)
    ('coda', 'CoDA', 0, ['similarity', 'gate', 'weights'])
    """
    with watching(layer) as maps, functions_untraced():
        output = layer(*args, **kwargs)
    return output, maps


def with_sequences(
    maps: Iterable[AttentionMap],
    lengths: Mapping[str, int],
    measured: Iterable[AttentionMap] | None = None,
) -> list[AttentionMap]:
    """Return the maps with the sequence that each axis belongs to, found by its length.

    Where two sequences have the same length, rows belong to the first and columns to the last.
    To avoid that, pass maps of a call in which all lengths differ as `measured`; `lengths` are then
    those of that call, by name.

    >>> from keras_quasiattn.layers import CoDA
    >>> layer, x = CoDA(name="coda"), keras.ops.ones((1, 3, 4))
    >>> layer.build([(1, 3, 4), (1, 3, 4)])
    >>> _, maps = probe(layer, [x, x])
    >>> _, measured = probe(layer, [x, x[:, :2]])
    >>> (one,) = with_sequences(maps, {"a": 3, "b": 2}, measured)
    >>> one.matrices["weights"].sequences
    ('a', 'b')
    """
    rows = {length: name for name, length in reversed(list(lengths.items()))}
    columns = {length: name for name, length in lengths.items()}
    maps = list(maps)
    found = []
    for one, other in zip(maps, maps if measured is None else measured, strict=True):
        matrices = {}
        for name, recorded in one.matrices.items():
            shape = (1, *other.matrices[name].values.shape[1:])  # (1, ..., T, S); pooled: (1, T)
            sequences = rows.get(shape[-2]), columns.get(shape[-1])
            matrices[name] = recorded._replace(sequences=sequences)
        found.append(one._replace(matrices=matrices))
    return found


@contextlib.contextmanager
def watching(layer: keras.Layer) -> Iterator[list[AttentionMap]]:
    """Collect what the attention layers of a built layer or model compute in the `with` block.

    It works on every backend, eagerly and while a `tf.function` is traced (the matrices are then
    tensors of that graph). Two threads must not watch the same layer at once.
    """
    maps: list[AttentionMap] = []
    with contextlib.ExitStack() as stack:
        for path, one in attention_layers(layer).items():
            stack.enter_context(_watched(path, one, maps))
        yield maps


@contextlib.contextmanager
def _watched(path: str, layer: keras.Layer, maps: list[AttentionMap]) -> Iterator[None]:
    """Make `layer.call` append its recordings to `maps` within the `with` block."""
    call: Callable[..., Any] = layer.call
    recorded_call = call
    keeps_record = isinstance(layer, (MultiHeadQuasiAttention, HookedLayer))
    if isinstance(layer, keras.layers.MultiHeadAttention) and not keeps_record:
        recorded_call = functools.partial(_call_and_record, layer, call)

    def watched(*args: Any, **kwargs: Any) -> Any:
        with recording() as found:
            output = recorded_call(*args, **kwargs)
        if found:
            earlier = sum(one.layer == path for one in maps)
            maps.append(AttentionMap(path, type(layer).__name__, earlier, found))
        return output

    # Bypass the `__setattr__` of Keras, which would track the function as part of the layer.
    object.__setattr__(layer, "call", watched)
    try:
        yield
    finally:
        object.__delattr__(layer, "call")


def _call_and_record(
    layer: keras.layers.MultiHeadAttention, call: Callable[..., Any], *args: Any, **kwargs: Any
) -> Any:
    """Call Keras' own attention layer, record its weights, and return the requested outputs."""
    bound = inspect.signature(call).bind(*args, **kwargs)
    given = bound.arguments
    wanted = given.get("return_attention_scores", False)
    given["return_attention_scores"] = True
    # (B, T, ..., features) and (B, free…, N, T…, S…)
    output, scores = call(*bound.args, **bound.kwargs)
    axes = AttentionAxes(len(given["query"].shape) + 1, layer.attention_axes)
    lengths = axes.lengths(given["query"]), axes.lengths(given["value"])
    visible = _visible(layer, axes, lengths, given)
    leading = keras.ops.shape(scores)[: -2 * len(axes.axes)]
    weights = keras.ops.reshape(scores, (*leading, *map(math.prod, lengths)))
    own_mask = visible if given["value"] is given["query"] else None
    with real_rows(None, own_mask):
        record("weights", weights, visible, "softmax weights")
    return (output, scores) if wanted else output


def _visible(
    layer: keras.layers.MultiHeadAttention,
    axes: AttentionAxes,
    lengths: tuple[tuple[Any, ...], tuple[Any, ...]],
    given: Mapping[str, Any],
) -> Tensor | None:
    """Return which pairs are visible in a call of Keras' layer, or None for all."""
    masks = {
        name: None if given.get(name) is None else keras.ops.cast(given[name], "bool")
        for name in ("query_mask", "value_mask", "key_mask", "attention_mask")
    }
    targets, sources = map(math.prod, lengths)
    window = layer.get_config().get("sliding_window")  # new in Keras 3.15
    return combine_masks(
        axes.target_mask(masks["query_mask"]),
        axes.source_mask(combine_masks(masks["value_mask"], masks["key_mask"])),
        axes.pair_mask(masks["attention_mask"], *lengths),
        causal_mask(targets, sources) if given.get("use_causal_mask") else None,
        None if window is None else sliding_window_mask(targets, sources, window),
    )


def temperatures(layer: keras.Layer) -> dict[str, Tensor]:
    """Return learned α and β, a vector each, and τ of gates of every attention, by "path/name"."""
    found: dict[str, Tensor] = {}
    for path, one in attention_layers(layer).items():
        own = [sub for sub in one._flatten_layers() if isinstance(sub, Gates)]
        found |= {f"{path}/temperature": gates.current_temperature() for gates in own}
        for weight in one.trainable_weights:
            if weight.name in ("alpha", "beta"):
                found[f"{path}/{weight.name}"] = keras.ops.reshape(weight, (-1,))
    return found
