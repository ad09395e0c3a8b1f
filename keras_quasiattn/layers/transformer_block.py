"""The parts that encoder and decoder blocks share."""

from collections.abc import Callable
from functools import partial
from typing import Any

import keras

from keras_quasiattn.attention.choice import AttentionChoice
from keras_quasiattn.core.arguments import check_sequence
from keras_quasiattn.core.configured import ConfiguredLayer
from keras_quasiattn.core.masks import on_finite_rows
from keras_quasiattn.layers.dense import LayerNormalization
from keras_quasiattn.layers.feed_forward import FeedForward

Tensor = Any
Shape = tuple[int | None, ...]
_OF_FEED_FORWARD = (
    *("intermediate_dim", "dropout", "activation"),
    *("layer_norm_epsilon", "kernel_initializer", "normalize_first"),
)


class TransformerBlock(ConfiguredLayer):
    """Constructor and configuration of `TransformerEncoder` and `TransformerDecoder`; see those."""

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
        norm = LayerNormalization(
            epsilon=self.feed_forward.layer_norm_epsilon, name=f"{name}_norm", **common
        )
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
        return (
            norm,
            attention,
            keras.layers.Dropout(self.feed_forward.dropout, name=f"{name}_dropout", **common),
        )

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
        norm, attention, dropout = (
            getattr(self, attribute) for attribute in (f"{name}_norm", name, f"{name}_dropout")
        )
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
        return {
            **keras.layers.Layer.get_config(self),
            **self._choice.get_config(),
            **{name: feed_forward[name] for name in _OF_FEED_FORWARD},
        }

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
