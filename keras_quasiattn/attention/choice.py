"""How a Transformer block specifies which attention it uses."""

import dataclasses
from typing import Any

import keras

from keras_quasiattn.attention.base import ATTENTIONS
from keras_quasiattn.attention.multi_head import MultiHeadQuasiAttention
from keras_quasiattn.core.arguments import check_options, check_positive_integer


class AttentionChoice:
    """A block's checked attention arguments, all None but `attention` if that is a layer."""

    def __init__(
        self,
        attention: Any,
        num_heads: int | None,
        key_dim: int | None,
        options: dict[str, Any] | None,
    ) -> None:
        self.num_heads, self.key_dim = num_heads, key_dim
        self.options = check_options(options, "attention_options")
        if isinstance(attention, str):
            if attention not in ATTENTIONS:
                raise ValueError(
                    f"`attention` must be one of {sorted(ATTENTIONS)} or a layer. "
                    f"Received: attention={attention!r}"
                )
            check_positive_integer(num_heads, "num_heads")
            if key_dim is not None:
                check_positive_integer(key_dim, "key_dim")
            self.attention: str | dict[str, Any] = attention
            return
        layer = (
            keras.saving.deserialize_keras_object(attention)
            if isinstance(attention, dict)
            else attention
        )
        if not isinstance(layer, keras.layers.Layer):
            raise ValueError(
                f"`attention` must be a name or a Keras layer. Received: attention={attention!r}"
            )
        for name, value in (
            ("num_heads", num_heads),
            ("key_dim", key_dim),
            ("attention_options", options),
        ):
            if value:
                raise ValueError(
                    f"`{name}` must be None when `attention` is a layer. Received: {name}={value!r}"
                )
        if layer.built:
            raise ValueError(
                "`attention` must be an unbuilt layer, because each block creates its own copy "
                f"from the configuration. Received: the built layer {layer.name!r}"
            )
        # Keep a given configuration instead of serializing `layer` again: objects that are
        # serialized while Keras loads a model must outlive the loading (see
        # `recurrence.bidirectional`), but `layer` is freed.
        self.attention = (
            attention if isinstance(attention, dict) else keras.saving.serialize_keras_object(layer)
        )

    def get_config(self) -> dict[str, Any]:
        """Return the corresponding constructor arguments of the block."""
        return {
            "attention": self.attention,
            "num_heads": self.num_heads,
            "key_dim": self.key_dim,
            "attention_options": self.options or None,
        }

    def make(
        self,
        width: int,
        name: str,
        *,
        dropout: float,
        kernel_initializer: keras.initializers.Initializer,
        dtype: Any,
        is_cross: bool = False,
    ) -> keras.layers.Layer:
        """Create a layer for `width` features; if `is_cross`, queries must not see each other."""
        if isinstance(self.attention, dict):
            layer = _copy(self.attention, name=name)
            changes: Any = {}
            if is_cross and isinstance(layer, MultiHeadQuasiAttention):
                changes = layer.cross_attention_arguments
            return _copy(self.attention, name=name, **changes) if changes else layer
        num_heads: Any = self.num_heads  # always an integer for a named attention
        if self.key_dim is None and width % num_heads:
            raise ValueError(
                "The width of the inputs must be divisible by `num_heads` unless `key_dim` is "
                f"given. Received: num_heads={self.num_heads}, width={width}"
            )
        options = {
            "num_heads": self.num_heads,
            "key_dim": self.key_dim or width // num_heads,
            "dropout": dropout,
            "use_bias": False,
            "kernel_initializer": kernel_initializer.clone(),
            "dtype": dtype,
            **self.options,
            "name": name,
        }
        made: MultiHeadQuasiAttention = ATTENTIONS[self.attention](**options)
        changes = made.cross_attention_arguments if is_cross else {}
        return ATTENTIONS[self.attention](**{**options, **changes}) if changes else made


def options_at(depth: int, attention: Any, options: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the options of `attention` in block number `depth` of a stack, counted from 1.

    An attention given by name gets its depth if it has such an option and `options` do not set it;
    so does the attention that it starts from.
    """
    if options and options.get("start"):
        start = options["start"]
        of_start = options_at(depth, start["attention"], start.get("options"))
        options = {**options, "start": {**start, "options": of_start}}
    named = ATTENTIONS.get(attention) if isinstance(attention, str) else None
    if named is None or "depth" not in {
        field.name for field in dataclasses.fields(named.options_class)
    }:
        return options
    return {"depth": depth, **(options or {})}


def _copy(serialized: dict[str, Any], **changes: Any) -> keras.layers.Layer:
    """Create a layer from a serialized configuration, with some arguments changed."""
    config = {**serialized["config"], **changes}
    return keras.saving.deserialize_keras_object({**serialized, "config": config})
