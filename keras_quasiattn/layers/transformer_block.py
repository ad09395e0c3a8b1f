"""The parts that the encoder and the decoder block share."""

from typing import Any

import keras

from keras_quasiattn.layers.feed_forward import FeedForward
from keras_quasiattn.layers.shared.arguments import check_sequence
from keras_quasiattn.layers.shared.attention_choice import AttentionChoice
from keras_quasiattn.layers.shared.layer_normalization import LayerNormalization


class TransformerBlock(keras.layers.Layer):
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
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self._choice = AttentionChoice(attention, num_heads, key_dim, attention_options)
        self.feed_forward = FeedForward(
            intermediate_dim,
            dropout=dropout,
            activation=activation,
            layer_norm_epsilon=layer_norm_epsilon,
            kernel_initializer=kernel_initializer,
            dtype=self.dtype_policy,
            name="feed_forward",
        )

    def _make_attention_sublayer(
        self, name: str, query_shape: Any, value_shape: Any, *, is_cross: bool = False
    ) -> tuple[keras.layers.Layer, keras.layers.Layer, keras.layers.Layer]:
        """Makes and builds a norm, an attention, and the dropout that follows it."""
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

    def get_config(self) -> dict[str, Any]:
        """Returns every constructor argument."""
        feed_forward = self.feed_forward.get_config()
        shared = (
            "intermediate_dim",
            "dropout",
            "activation",
            "layer_norm_epsilon",
            "kernel_initializer",
        )
        return {
            **super().get_config(),
            **self._choice.get_config(),
            **{name: feed_forward[name] for name in shared},
        }
