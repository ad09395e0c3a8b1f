"""Scales of E and N from the first batch, for CoDA with `scaling="calibrated"`."""

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_quasiattn.core.arguments import check_layer
from keras_quasiattn.core.backend import functions_untraced
from keras_quasiattn.core.recording import recording
from keras_quasiattn.core.tensors import holding

Tensor = Any
# (q·kᵀ, L1 distances, mask) → α and β
Observe = Callable[[Tensor, Tensor, Tensor | None], tuple[Tensor, Tensor]]

SCALES = {"alpha": "alpha_scale", "beta": "beta_scale"}  # names of the weights

_active: ContextVar[bool] = ContextVar("calibrating", default=False)
# Receives the pairs while `calibrate_attention` runs.
observe: ContextVar[Observe | None] = ContextVar("observe_pairs", default=None)
_NO_NUMBERS = "`calibrate_attention` needs numbers: call it eagerly, outside of graphs."
_HALVINGS = 60
_ROUNDING = 1e-6  # of sums in float32, relative to their size


def calibrate_attention(layer: keras.Layer, *args: Any, **kwargs: Any) -> None:
    """Set the scales of every CoDA in a built layer or model that has `scaling="calibrated"`.

    One call with these arguments, without dropout, sets both scales of each head in the order of
    the layers: the standard deviation of E over the visible pairs becomes α, and the mean of
    2·sigmoid(N) becomes ½ for β = 1. Call it eagerly with the first batch, before training. A head
    whose products are all equal or not finite, or whose distances are all 0 or not finite, keeps
    its scale.

    Args:
        layer: any built Keras layer or model.
        *args: positional arguments of the call.
        **kwargs: keyword arguments of the call.

    Raises:
        ValueError: `layer` is not a Keras layer, or an argument has no numbers yet, as within
            `tf.function`, `jax.jit` or a functional model.

    Example:
    >>> from keras_quasiattn.layers import MultiHeadCoDA
    >>> layer = MultiHeadCoDA(num_heads=2, key_dim=8, scaling="calibrated")
    >>> x = np.random.default_rng(0).normal(size=(4, 9, 16)).astype("float32")
    >>> output = layer(x, x)
    >>> calibrate_attention(layer, x, x)
    >>> from keras_quasiattn.attention.probe import probe
    >>> _, (one,) = probe(layer, x, x)
    >>> round(float(np.mean(one.matrices["gate"].values)), 3)
    0.5
    """
    check_layer(layer, "layer")
    for one in keras.tree.flatten((args, kwargs)):
        if isinstance(one, keras.KerasTensor):
            raise ValueError(f"{_NO_NUMBERS} Received: {one}")
    # Recording, so that whole matrices are computed.
    with holding(_active, True), recording(), functions_untraced():
        layer(*args, **{"training": False, **kwargs})


def can_be_calibrated(layer: keras.Layer) -> bool:
    """Return whether a built layer or model has a CoDA with `scaling="calibrated"`."""
    return any(weight.name == SCALES["alpha"] for weight in layer.non_trainable_weights)


@contextlib.contextmanager
def calibrating(
    scales: dict[str, Any], factors: Callable[[], tuple[Tensor, Tensor]]
) -> Iterator[None]:
    """Let `calibrate_attention` set `scales` in the `with` block, from the pairs weighted there.

    `scales` holds the weights "alpha" and "beta", () or (N, 1, 1).
    `factors` returns α and β times their current scales.
    """
    if not _active.get():
        yield
        return

    def set_scales(
        products: Tensor, distance: Tensor, mask: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        products, distance = _numbers(products), _numbers(distance)
        visible = np.ones(products.shape, bool)
        if mask is not None:
            visible &= _numbers(mask).astype(bool)
        rules = (("alpha", products, _scale_of_products), ("beta", distance, _scale_of_distances))
        for name, values, scale_of in rules:
            scale = ops.convert_to_numpy(scales[name]).astype(np.float64)
            array = values.astype(np.float64)
            axis = array.ndim - 3  # of heads
            for head in range(scale.size):
                chosen = visible if scale.ndim == 0 else np.take(visible, head, axis)
                found = (array if scale.ndim == 0 else np.take(array, head, axis))[chosen]
                scale.flat[head] = scale_of(found) or scale.flat[head]
            scales[name].assign(scale)
        return factors()

    with holding(observe, set_scales):
        yield


def _numbers(x: Tensor) -> np.ndarray:
    try:
        return np.asarray(ops.convert_to_numpy(x))
    except (NotImplementedError, TypeError, RuntimeError) as error:  # it is traced
        raise ValueError(f"{_NO_NUMBERS} Received: {x}") from error


def _scale_of_products(products: np.ndarray) -> float | None:
    """Return the scale that gives the products variance 1."""
    if not products.size or not np.isfinite(products).all():
        return None
    deviation = float(products.std())
    return 1 / deviation if deviation > _ROUNDING * float(np.abs(products).max()) else None


def _scale_of_distances(distances: np.ndarray) -> float | None:
    """Return the scale c for which the mean of 2·sigmoid(−c·distance) is ½, by bisection."""
    far = distances[distances > 0]
    if 2 * far.size <= distances.size or not np.isfinite(distances).all():
        return None  # the gates of equal vectors stay 1, so the mean stays above ½

    def is_open(scale: float) -> bool:
        return float(np.mean(2 / (1 + np.exp(np.minimum(scale * distances, 500))))) > 0.5

    low, high = 0.0, 1 / float(far.mean())
    while is_open(high):
        low, high = high, 2 * high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if is_open(middle) else (low, middle)
    return high
