"""Replace the attention method of other packages' layers if it computes a plain softmax."""

import inspect
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_quasiattn.attention.softmax import softmax_attention
from keras_quasiattn.attention.start import Heads
from keras_quasiattn.core.configured import QuantizedParts

HOOK = "_compute_attention"
# The arguments with which Keras calls the method; another layer's may take fewer, not more.
_ARGUMENTS = ("query", "key", "value", "attention_mask", "return_attention_scores", "training")
_OF_KERAS = ("_compute_attention", "_masked_softmax")


class HookedLayer(QuantizedParts):
    """Mixin, listed first, for a layer of which only the attention method is replaced."""

    heads: Heads

    def _compute_attention(self, *args: Any, **options: Any) -> Any:
        given = inspect.signature(getattr(super(), HOOK)).bind(*args, **options).arguments
        result = self.heads.compute(**{name: one for name, one in given.items() if name != "self"})
        return result if _is_of_keras(self) else result[0]


def can_be_hooked(layer: keras.layers.Layer) -> bool:
    """Return whether replacing the attention method is enough: it computes a plain softmax.

    A subclass of `keras.layers.MultiHeadAttention`, such as one with a cache, must inherit the
    method; that of any other built layer is tried on numbers.
    """
    kind = type(layer)
    if HOOK not in getattr(kind.call, "__code__", kind.call).co_names:
        return False
    if _is_of_keras(layer):
        return kind is not keras.layers.MultiHeadAttention and all(
            getattr(kind, name) is getattr(keras.layers.MultiHeadAttention, name)
            for name in _OF_KERAS
        )
    names = inspect.signature(getattr(layer, HOOK)).parameters if hasattr(layer, HOOK) else ()
    if not layer.built or tuple(names)[:4] != _ARGUMENTS[:4] or not {*names} <= {*_ARGUMENTS}:
        return False
    try:
        return bool(_sizes(layer)) and _is_softmax(layer)
    except Exception:  # it needs other arguments
        return False


def _is_of_keras(layer: Any) -> bool:
    return isinstance(layer, keras.layers.MultiHeadAttention)


def _dense(layer: Any, name: str) -> Any:
    """Return a projection, under the name that it has in Keras' own layer, or None."""
    return getattr(layer, f"_{name}_dense", None) or getattr(layer, f"{name}_dense", None)


def _sizes(layer: Any) -> dict[str, Any]:
    """Return the number and the sizes of heads; empty if the layer does not project to heads."""
    dense = [_dense(layer, name) for name in ("query", "value")]
    shapes = [one.kernel.shape for one in dense if isinstance(one, keras.layers.EinsumDense)]
    if [len(shape) for shape in shapes] != [3, 3]:
        return {}
    (_, heads, size), (_, _, value_size) = shapes
    return {"num_heads": heads, "key_dim": size, "value_dim": value_size}


def _is_softmax(layer: Any) -> bool:
    """Return whether the method computes a softmax of dot products, over the keys of a mask."""
    sizes, length = _sizes(layer), 5
    query, key, value = (
        ops.cast(_numbers(start, length, sizes["num_heads"], sizes[name]), layer.compute_dtype)
        for start, name in enumerate(("key_dim", "key_dim", "value_dim"))
    )
    for mask in (None, np.tri(length, dtype="bool")[None]):
        got = getattr(layer, HOOK)(query, key, value, attention_mask=mask)
        q, k, v = (ops.swapaxes(x, 1, 2) for x in (query, key, value))  # (B, N, L, H)
        want = softmax_attention(q, k, v, mask, scale=sizes["key_dim"] ** -0.5)
        difference = ops.cast(ops.swapaxes(want, 1, 2), "float32") - ops.cast(got, "float32")
        accuracy = 1e-5 if layer.compute_dtype in ("float32", "float64") else 3e-2
        if np.abs(ops.convert_to_numpy(difference)).max() > accuracy:
            return False
    return True


def _numbers(start: int, length: int, heads: int, size: int) -> np.ndarray:
    """Return numbers (1, L, N, H) between −2 and 2 without a pattern."""
    count = length * heads * size
    return 2 * np.sin(np.arange(start, count + start) ** 2).reshape(1, length, heads, size)


def hook(layer: Any, make: Any) -> None:
    """Replace a layer's attention method with the one of the multi-head layer from `make`."""
    parameters = inspect.signature(getattr(layer, HOOK)).parameters
    drops = "training" in parameters  # otherwise the layer drops something else
    made = make(
        **_sizes(layer),
        attention_axes=getattr(layer, "attention_axes", None),
        dropout=getattr(layer, "dropout", 0.0) if drops else 0.0,
        dtype=layer.dtype_policy,
        name=f"{layer.name}_heads",
    )
    heads = Heads(made, name="heads")
    with keras.name_scope(layer.name, caller=layer):  # the path of its weights
        heads.build_for(rank=len(_dense(layer, "query").equation.split("->")[1]))
    locked = layer._tracker.locked
    layer._tracker.unlock()
    layer.heads = heads
    if locked:
        layer._tracker.lock()
    if not isinstance(layer, HookedLayer):
        kind = type(layer)
        made_class = type(kind.__name__, (HookedLayer, kind), {"__module__": kind.__module__})
        layer.__class__ = made_class
