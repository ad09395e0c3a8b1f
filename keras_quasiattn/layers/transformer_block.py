"""What encoder and decoder blocks share: how they choose their attention, and its sublayers."""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

import keras

from keras_quasiattn.attention.base import ATTENTIONS
from keras_quasiattn.attention.multi_head import MultiHeadQuasiAttention
from keras_quasiattn.core.arguments import (
    check,
    check_options,
    check_positive_integer,
    check_sequence,
)
from keras_quasiattn.core.configured import ConfiguredLayer, clone_initializer
from keras_quasiattn.core.masks import on_finite_rows
from keras_quasiattn.layers.dense import LayerNormalization
from keras_quasiattn.layers.feed_forward import FeedForward

Tensor = Any
Shape = tuple[int | None, ...]
_OF_FEED_FORWARD = (
    *("intermediate_dim", "dropout", "activation"),
    *("layer_norm_epsilon", "kernel_initializer", "normalize_first"),
)


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
            known = f"one of {sorted(ATTENTIONS)} or a layer"
            check(attention in ATTENTIONS, attention, "attention", known)
            check_positive_integer(num_heads, "num_heads")
            check_positive_integer(key_dim, "key_dim", optional=True)
            self.attention: str | dict[str, Any] = attention
            return
        layer = attention
        if isinstance(attention, dict):
            layer = keras.saving.deserialize_keras_object(attention)
        is_layer = isinstance(layer, keras.layers.Layer)
        check(is_layer, attention, "attention", "a name or a Keras layer")
        given = {"num_heads": num_heads, "key_dim": key_dim, "attention_options": options}
        for name, value in given.items():
            check(not value, value, name, "None when `attention` is a layer")
        if layer.built:
            raise ValueError(
                "`attention` must be an unbuilt layer, because each block creates its own copy "
                f"from the configuration. Received: the built layer {layer.name!r}"
            )
        # Keep a given configuration instead of serializing `layer` again: objects that are
        # serialized while Keras loads a model must outlive the loading (see
        # `recurrence.Bidirectional`), but `layer` is freed.
        self.attention = attention
        if not isinstance(attention, dict):
            self.attention = keras.saving.serialize_keras_object(layer)

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
            "kernel_initializer": clone_initializer(kernel_initializer),
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
    fields = () if named is None else dataclasses.fields(named.options_class)
    has_depth = any(field.name == "depth" for field in fields)
    return {"depth": depth, **(options or {})} if has_depth else options


def _copy(serialized: dict[str, Any], **changes: Any) -> keras.layers.Layer:
    """Create a layer from a serialized configuration, with some arguments changed."""
    config = {**serialized["config"], **changes}
    return keras.saving.deserialize_keras_object({**serialized, "config": config})


class TransformerBlock(ConfiguredLayer):
    """Share the constructor and configuration of `TransformerEncoder` and `TransformerDecoder`."""

    def __init__(
        self,
        intermediate_dim: int,
        num_heads: int | None = None,
        attention: Any = "coda",
        attention_options: dict[str, Any] | None = None,
        key_dim: int | None = None,
        dropout: float = 0.0,
        activation: Any = "relu",
        layer_norm_epsilon: float = 1e-6,
        kernel_initializer: Any = "glorot_uniform",
        normalize_first: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._choice = AttentionChoice(attention, num_heads, key_dim, attention_options)
        self.feed_forward = FeedForward(
            intermediate_dim,
            dropout=dropout,
            activation=activation,
            layer_norm_epsilon=layer_norm_epsilon,
            kernel_initializer=kernel_initializer,
            normalize_first=normalize_first,
            dtype=self.dtype_policy,
            name="feed_forward",
        )

    def _make_attention_sublayer(
        self, name: str, query_shape: Any, value_shape: Any, *, is_cross: bool = False
    ) -> tuple[keras.layers.Layer, keras.layers.Layer, keras.layers.Layer]:
        """Create and build a norm, an attention, and the dropout after it."""
        common = {"dtype": self.dtype_policy}
        epsilon = self.feed_forward.layer_norm_epsilon
        norm = LayerNormalization(epsilon=epsilon, name=f"{name}_norm", **common)
        attention = self._choice.make(
            check_sequence(query_shape, "inputs"),
            is_cross=is_cross,
            name=name,
            dropout=self.feed_forward.dropout,
            kernel_initializer=self.feed_forward.kernel_initializer,
            **common,
        )
        norm.build(query_shape)
        attention.build(query_shape=query_shape, value_shape=value_shape)
        rate = self.feed_forward.dropout
        return norm, attention, keras.layers.Dropout(rate, name=f"{name}_dropout", **common)

    def _apply_attention_sublayer(
        self,
        name: str,
        inputs: Tensor,
        attend: Callable[[keras.layers.Layer, Tensor], tuple[Tensor, Any]],
        training: bool | None = None,
        isolate_rows: bool = False,
    ) -> tuple[Tensor, Any]:
        """Return the output (B, T, D) of one sublayer, and the second result of `attend`.

        `attend(attention, query) -> (output, further)` gets the `inputs`, normalized if
        `normalize_first`. With `isolate_rows`, NaN in some rows must stay out of the gradients of
        the norm.
        """
        parts = (f"{name}_norm", name, f"{name}_dropout")
        norm, attention, dropout = (getattr(self, part) for part in parts)
        first = self.feed_forward.normalize_first
        normalize = partial(on_finite_rows, norm) if isolate_rows else norm
        output, further = attend(attention, normalize(inputs) if first else inputs)
        output = inputs + dropout(output, training=training)
        return output if first else normalize(output), further

    def _hides(self, attention: keras.layers.Layer, *masks: Any) -> bool:
        """Return whether a mask or a window hides real positions from others."""
        window = getattr(attention, "sliding_window", None)
        return any(one is not None and one is not False for one in (window, *masks))

    def get_config(self) -> dict[str, Any]:
        """Return every constructor argument."""
        feed_forward = self.feed_forward.get_config()
        own = {name: feed_forward[name] for name in _OF_FEED_FORWARD}
        base = keras.layers.Layer.get_config(self)
        return self.with_arguments({**base, **self._choice.get_config(), **own})

    def compute_output_shape(self, inputs_shape: Shape, encoder_shape: Any = None) -> Shape:
        """Return the shape of the inputs."""
        return tuple(inputs_shape)


def call_attention(
    attention: keras.layers.Layer,
    query: Tensor,
    value: Tensor | None = None,
    *,
    attention_mask: Tensor | None,
    return_attention_scores: bool,
    use_causal_mask: bool = False,
    **options: Any,
) -> tuple[Tensor, list[Tensor]]:
    """Return the output of an attention layer, and a list of its scores, empty unless requested.

    `value` defaults to `query`. Only the options in use are passed on, because a user's own layer
    may lack the others.
    """
    value = query if value is None else value
    if attention_mask is not None:
        options["attention_mask"] = attention_mask
    if use_causal_mask:
        options["use_causal_mask"] = True
    if not return_attention_scores:
        return attention(query, value, **options), []
    output, scores = attention(query, value, return_attention_scores=True, **options)
    return output, [scores]


def scores_spec(attention: keras.layers.Layer, query: Tensor, value: Tensor) -> Any:
    """Return the symbolic scores (B, N, T, S) of a built attention layer."""
    return attention.compute_output_spec(query, value, return_attention_scores=True)[1]


def scores_shape(attention: Any, query: Tensor, value: Tensor) -> tuple[Any, ...]:
    """Return the shape of the scores (B, N, T, S); N is None if the layer does not define it."""
    heads = getattr(attention, "num_heads", None)
    return (query.shape[0], heads, query.shape[1], value.shape[1])
