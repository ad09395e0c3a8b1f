"""A copy of any model in which the attention layers are replaced by another attention."""

import contextlib
import dataclasses
import tempfile
import warnings
from collections.abc import Iterable, Iterator
from typing import Any

import keras

from keras_quasiattn.attention.base import ATTENTIONS
from keras_quasiattn.attention.hooked_layer import HOOK, HookedLayer
from keras_quasiattn.attention.start import Start
from keras_quasiattn.attention.swapped_layer import (
    STARTS,
    WITH_HEADS,
    Swap,
    attention_class,
    build_like,
    holder_name,
    is_graph,
    made_anew,
    makes_its_layers,
    original_class,
)
from keras_quasiattn.core.arguments import check_options
from keras_quasiattn.core.tensors import check_choice

# Sublayers that both layers have; the last one only where `use_gate` is set.
_PROJECTIONS = ("_query_dense", "_key_dense", "_value_dense", "_output_dense", "_gate_dense")


def swap_attention(
    model: keras.Model,
    attention: str = "coda",
    attention_options: dict[str, Any] | None = None,
    start: str = "projections",
    **options: Any,
) -> keras.Model:
    """Copy a model with its attention replaced by `MultiHeadCoDA` or another multi-head layer.

    The copy replaces `keras.layers.MultiHeadAttention`, `keras.layers.GroupQueryAttention` and this
    package's multi-head layers wherever they occur: in the model, in nested models, in this
    package's blocks and Transformers, and in layers or models of your own or of other packages that
    hold them, or models with them, as attributes, or in lists, tuples or dictionaries that are
    attributes. Layers that attend in a method `_compute_attention` get another method: subclasses
    of Keras' layer that inherit it, such as KerasHub's attention with a cache, and layers whose
    method, tried on a few numbers, computes a plain softmax, such as Llama's. Their caches,
    positions and grouped heads stay.

    Names, projection weights, masks and calls stay the same, and so do all other layers. Frozen
    layers stay frozen, including the further weights of a new layer. The original model does not
    change. Copies of your own layers, and of models whose classes make their layers from arguments,
    such as KerasHub's, have a subclass of the original class; tasks keep their preprocessor.

    `start` says what the copy computes before it is trained:

    - "projections": the new attention alone, on projections that were trained for another one. That
      is another function, which training must win back.
    - "unchanged": old + f · new, with a factor f for each head, learned from 0. The copy answers as
      the model does, to 1e-6, except in rows that are masked or see nothing: these are 0, where
      Keras averages. Every layer keeps computing both attentions.
    - "blend": (1 − s) · old + s · new, where `BlendAttention` moves s from 0 to 1 during training.
      After that the layers cost as much as the new attention alone.

    The copy keeps what cannot be replaced, and a warning names it with the reason: third-party
    subclasses of `MultiHeadAttention` with another softmax, `keras.layers.Attention` and
    `AdditiveAttention`, which have no heads, and attention held or computed in another way.

    Args:
        model: a built functional or sequential model.
        attention: name of the layer to use, as for `layers.TransformerEncoder`. Defaults to "coda".
        attention_options: dict of arguments of that layer that `MultiHeadAttention` does not have,
            such as `{"gate_range": "centered"}`. `tuning.choose_attention` returns it with
            `attention`.
        start: "projections", "unchanged" or "blend". Defaults to "projections".
        **options: the same arguments as in `attention_options`, one by one.

    Returns:
        The copy, not compiled, even if the model is, unless its class compiles it by itself, as
        KerasHub's tasks do.

    Raises:
        ValueError: if the model is neither functional nor sequential, has no layer to swap, or
            calls one with an argument that the new layer does not accept, such as a float mask; if
            `attention` or `start` is unknown; if an option is given twice, changes the shape of a
            projection or, if `start` is not "projections", changes the old attention, too; if a
            layer whose weights must be copied has LoRA or is quantized, and its copy does not; or
            if the model was swapped before from another `start`.

    Example:
    >>> x = keras.Input((None, 8))
    >>> model = keras.Model(x, keras.layers.MultiHeadAttention(2, 4, name="attention")(x, x))
    >>> type(swap_attention(model, gate_range="centered").get_layer("attention")).__name__
    'MultiHeadCoDA'
    >>> states = keras.random.normal((1, 5, 8))
    >>> copy = swap_attention(model, start="unchanged")
    >>> bool(keras.ops.max(keras.ops.abs(copy(states) - model(states))) < 1e-6)
    True
    """
    if not is_graph(model):
        raise ValueError(
            "`model` must be a functional model, or a sequential model that has been built. "
            f"Received: {model!r}"
        )
    check_choice(attention, sorted(ATTENTIONS), "attention")
    check_choice(start, STARTS, "start")
    given = check_options(attention_options, "attention_options")
    twice = sorted(options.keys() & given.keys())
    if twice:
        raise ValueError(
            "An option must be given by name or in `attention_options`, not both. "
            f"Received: {twice} in both"
        )
    options |= given
    found = list(_layers(model))
    swap = Swap(attention, options, start=start)
    swap = dataclasses.replace(swap, holders=tuple(sorted(_holders(found, swap))))
    with _as_not_compiled(model):  # Keras would compile the copy, with the original's metrics
        copy = _copy(model, swap, {})
    _build_alike(model, copy)
    pairs = list(_pairs(model, copy))
    kept = [one for layer in _layers(copy) for one in _kept(layer, swap)]
    if not any(_differ(pair) or _hooked(pair[0]) is not _hooked(pair[1]) for pair in pairs):
        inside = [one for layer in found for one in layer._flatten_layers()]
        same = [one.name for one in inside if attention_class(one) is ATTENTIONS[attention]]
        if same:
            raise ValueError(
                f"`model` {model.name!r} must have a different attention from {attention!r}, which "
                "it already has; to change its options, set them where the layer is made. "
                f"Received: {', '.join(dict.fromkeys(same))}"
            )
        first = {(type(one), reason): (one, name, reason) for one, name, reason in reversed(kept)}
        raise ValueError(
            f"`model` {model.name!r} contains no layer such as keras.layers.MultiHeadAttention to "
            f"swap for {attention!r}. "
            + (
                f"Unchanged: {_listed(reversed(first.values()))}"
                if kept
                else f"Its layers: {', '.join(layer.name for layer in found)}"
            )
        )
    for pair in pairs:
        pair[1].trainable = pair[0].trainable  # also sets layers inside, whose own turn comes later
    for pair in pairs:
        _transfer(*pair)
    if kept:
        text = f"swap_attention leaves these layers unchanged: {_listed(kept)}"
        warnings.warn(text, stacklevel=2)
    return copy


def copy_state(model: keras.Model, copy: keras.Model) -> None:
    """Give a copy with the same attention the weights of a model, and all else that files hold."""
    _build_alike(model, copy)
    for pair in _pairs(model, copy):
        _transfer(*pair)


def _copy(layer: keras.Layer, swap: Swap, made: dict[int, keras.Layer]) -> keras.Layer:
    """Recreate a layer or model with its attention swapped; `made` holds copies by identity."""
    if id(layer) in made:
        return made[id(layer)]
    if not is_graph(layer) or swap.chooses(layer):
        copy = swap.copy(layer)
    elif makes_its_layers(layer):
        copy = made_anew(layer, swap)
        made |= {id(one): other for one, other in _pairs(layer, copy)}
    else:
        copy = keras.models.clone_model(
            layer, clone_function=lambda inside: _copy(inside, swap, made)
        )
    made[id(layer)] = copy
    return copy


@contextlib.contextmanager
def _as_not_compiled(model: keras.Model) -> Iterator[None]:
    """Treat a model and its nested models as not compiled inside the `with` block."""
    compiled = [one for one in model._flatten_layers() if getattr(one, "compiled", False)]
    for one in compiled:
        one.compiled = False
    try:
        yield
    finally:
        for one in compiled:
            one.compiled = True


def _layers(model: keras.Model) -> Iterator[keras.Layer]:
    """Yield the layers of a model, including those of nested functional and sequential models."""
    for layer in model.layers:
        if is_graph(layer):
            yield from _layers(layer)
        else:
            yield layer


def _holders(layers: list[keras.Layer], swap: Swap) -> set[str]:
    """Return the names of all layers, including nested ones, that have attention to swap."""
    return {
        holder_name(one)
        for layer in layers
        for one in layer._flatten_layers()  # Keras has no public way to list the layers in a layer
        if not is_graph(one)
        and not swap.replaces(one)
        and any(map(swap.applies_to, one._flatten_layers()))
    }


def _inside(layer: keras.Layer) -> list[keras.Layer]:
    """Return the direct sublayers of a layer or model, except one that replaces its method."""
    if is_graph(layer):
        return layer.layers
    inside = layer._flatten_layers(include_self=False, recursive=False)
    heads = layer.heads if isinstance(layer, HookedLayer) else None
    return [one for one in inside if one is not heads]


def _hooked(layer: keras.Layer) -> type[Any] | None:
    """Return the class of attention that replaces the method of a layer, if any does."""
    return attention_class(layer) if isinstance(layer, HookedLayer) else None


def _inside_both(source: Any, target: Any) -> list[tuple[keras.Layer, keras.Layer]]:
    """Return the direct sublayers of a layer, each with its copy."""
    inside = list(zip(_inside(source), _inside(target), strict=True))
    if _hooked(source) is not None and _hooked(source) is _hooked(target):
        inside.append((source.heads, target.heads))
    return inside


def _differ(pair: tuple[keras.Layer, keras.Layer]) -> bool:
    """Return whether the second layer has a different class of attention from the first."""
    one, other = map(original_class, pair)
    return all(issubclass(kind, WITH_HEADS) for kind in (one, other)) and one is not other


def _pairs(source: keras.Layer, target: keras.Layer) -> Iterator[tuple[keras.Layer, keras.Layer]]:
    """Yield a layer and its copy, then the layers in it, each with its copy."""
    yield source, target
    if _differ((source, target)):
        names = [name for name in _PROJECTIONS if hasattr(source, name)]
        inside = [(getattr(source, name), getattr(target, name)) for name in names]
        for start in (one for one in _inside(target) if isinstance(one, Start)):
            yield source, start.heads
            known = [id(one) for one, _ in inside]
            own = [one for one in _inside(source) if id(one) not in known]
            # Keras' own layer has layers without weights there
            inside += zip(own, _inside(start.heads), strict=False)
    else:
        inside = _inside_both(source, target)
    for pair in inside:
        yield from _pairs(*pair)


def _build_alike(source: keras.Layer, target: keras.Layer) -> None:
    """Build what the graph does not: layers inside one that defines its own output shape."""
    if source.built and not target.built:
        build_like(target, source)
    if not _differ((source, target)):
        for pair in _inside_both(source, target):
            _build_alike(*pair)


def _transfer(source: keras.Layer, target: keras.Layer) -> None:
    """Copy a layer's own weights, and whether they train, unless the layer was swapped."""
    if _differ((source, target)):
        return
    if _adaptation(source) != _adaptation(target):
        raise ValueError(
            "`model` must have no LoRA and no quantization in its attention, nor in layers that "
            f"the copy recreates. Received: {source.path!r}, which {_adaptation(source)}"
        )
    # Keras has no public way to list the weights that are not those of sublayers
    weights, copies = (
        [*one._trainable_variables, *one._non_trainable_variables] for one in (source, target)
    )
    shapes, needed = ([tuple(weight.shape) for weight in one] for one in (weights, copies))
    if shapes != needed:
        raise ValueError(
            "`options` must keep the shapes of the projections, whose weights are kept. Received: "
            f"options with which {source.path!r} has {needed} instead of {shapes}"
        )
    for weight, copied in zip(weights, copies, strict=True):
        # A copy, as training on JAX deletes the arrays that it starts from.
        copied.assign(keras.ops.copy(weight))
        copied.trainable = weight.trainable
    _copy_adapted(source, target)


def _copy_adapted(source: keras.Layer, target: keras.Layer) -> None:
    """Give a layer what its equal has learned from data besides weights, as a file would.

    Keras' `TextVectorization` has a vocabulary, for example, and `Normalization` derives constants
    from its weights.
    """
    if hasattr(source, "adapt"):
        words = getattr(source, "get_vocabulary", None)
        if words is not None and not words(include_special_tokens=False):
            return  # not adapted; Keras loads no empty vocabulary
        learned: dict[str, Any] = {}
        source.save_own_variables(learned)
        target.load_own_variables(
            {name: keras.ops.convert_to_numpy(value) for name, value in learned.items()}
        )
    if hasattr(source, "save_assets"):
        with tempfile.TemporaryDirectory() as folder:
            source.save_assets(folder)
            target.load_assets(folder)


def _adaptation(layer: keras.Layer) -> str | None:
    """Return how a layer's weights were adapted after it was built, and what to do about it."""
    if getattr(layer, "_is_quantized", False):
        return f"is quantized to {layer.quantization_mode}: swap first, quantize the copy"
    if getattr(layer, "lora_enabled", False):
        return (
            f"has LoRA of rank {layer.lora_rank}: save the model and load it, which merges LoRA "
            "into the kernels, then swap"
        )
    return None


def _listed(kept: Iterable[tuple[keras.Layer, str, str]]) -> str:
    return "; ".join(dict.fromkeys(f"{name}: {reason}" for _, name, reason in kept))


def _kept(layer: keras.Layer, swap: Swap) -> Iterator[tuple[keras.Layer, str, str]]:
    """Yield each attention that a copied layer still has, its name, and the reason."""
    for one in layer._flatten_layers():
        if attention_class(one) is ATTENTIONS[swap.attention]:
            continue
        if swap.applies_to(one):
            reason = "its layer holds it neither as an attribute nor in a list or the like of one"
        elif isinstance(one, keras.layers.Attention):
            reason = "it has neither heads nor projections, whose weights could be kept"
        elif isinstance(one, WITH_HEADS):
            known = (*ATTENTIONS.values(), *WITH_HEADS)
            base = next(base for base in known if isinstance(one, base))
            reason = f"a subclass of {base.__name__} may compute something else"
        elif hasattr(one, HOOK):
            reason = f"its `{HOOK}` is not a plain softmax of q·kᵀ/√H over the keys of a mask"
        elif _is_attention_alone(one):
            reason = f"it attends in `call`, not in a method `{HOOK}` that could be exchanged"
        else:
            continue
        within = "" if one is layer else f" in {layer.name} ({type(layer).__name__})"
        yield one, f"{one.name} ({type(one).__name__}){within}", reason


def _is_attention_alone(layer: keras.Layer) -> bool:
    """Return whether another package calls this layer attention, and none of its sublayers."""

    def is_attention(one: keras.Layer) -> bool:
        return isinstance(one, WITH_HEADS) or "Attention" in type(one).__name__

    ours = type(layer).__module__.startswith("keras_quasiattn.")
    inside = layer._flatten_layers(include_self=False)
    return not ours and is_attention(layer) and not any(map(is_attention, inside))
