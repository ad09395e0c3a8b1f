"""A multi-head layer without projections, which attends between heads that another projects."""

from collections.abc import Callable
from typing import Any

import keras

from keras_quasiattn.core.quantized_parts import QuantizedParts


class Heads(QuantizedParts, keras.layers.Layer):
    """Own the weights of a multi-head layer that has no projections.

    That layer cannot be called, and code that searches a model for attention does not find it.
    `layer` is an unbuilt multi-head layer of this package, of which `attend`, `compute`
    (`_compute_attention` in Keras) and `options` are kept.
    """

    def __init__(self, layer: Any, **kwargs: Any) -> None:
        super().__init__(dtype=layer.dtype_policy, autocast=False, **kwargs)
        # Keras would track the layer, but looks into no method.
        self.attend: Callable[..., Any] = layer.attend
        self.compute: Callable[..., Any] = layer._compute_attention
        self.options = layer.options

    def build_for(self, rank: int) -> None:
        """Create the weights; `rank` is that of the projected tensors."""
        layer = self.attend.__self__  # type: ignore[attr-defined]
        layer.build_without_projections(rank)
        # Keras has no public way to list the weights that are not those of sublayers
        self.owned = [
            *layer._trainable_variables,
            *layer._non_trainable_variables,
            *layer._seed_generators,
            *layer._layers,
        ]
        self.built = True
