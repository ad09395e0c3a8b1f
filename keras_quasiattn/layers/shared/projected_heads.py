"""Constructor, projections and configuration of all multi-head layers."""

from typing import Any, ClassVar

import keras

from keras_quasiattn.layers.shared.arguments import (
    check_positive_integer,
    check_projected_shapes,
    check_rate,
)
from keras_quasiattn.layers.shared.attention_axes import AttentionAxes
from keras_quasiattn.layers.shared.head_options import HeadOptions
from keras_quasiattn.layers.shared.head_projections import HeadProjections
from keras_quasiattn.layers.shared.projection import projected
from keras_quasiattn.layers.shared.quantized_parts import QuantizedParts

Tensor = Any
Shape = tuple[int | None, ...]


class ProjectedHeads(QuantizedParts, keras.layers.MultiHeadAttention):
    """`keras.layers.MultiHeadAttention` up to its attention, with the options of `HeadOptions`.

    See `MultiHeadQuasiAttention`, which attends.

    Attributes:
        score_parts: `HeadOptions.parts`.
    """

    score_parts: ClassVar[int] = 1

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        dropout: float = 0.0,
        use_bias: bool = True,
        output_shape: Any = None,
        attention_axes: Any = None,
        sliding_window: int | None = None,
        flash_attention: bool | None = None,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        use_gate: bool = False,
        seed: int | None = None,
        *,
        num_key_value_heads: int | None = None,
        rotary_base: float | None = None,
        **kwargs: Any,
    ) -> None:
        if flash_attention:
            raise ValueError(
                f"`flash_attention` must be None or False: {type(self).__name__} has no flash "
                "kernel. Received: flash_attention=True"
            )
        heads = HeadOptions(num_heads, key_dim, num_key_value_heads, rotary_base, self.score_parts)
        for name, size in (("value_dim", value_dim), ("sliding_window", sliding_window)):
            if size is not None:
                check_positive_integer(size, name)
        projections = {
            "use_bias": use_bias,
            "kernel_initializer": kernel_initializer,
            "bias_initializer": bias_initializer,
            "kernel_regularizer": kernel_regularizer,
            "bias_regularizer": bias_regularizer,
            "activity_regularizer": activity_regularizer,
            "kernel_constraint": kernel_constraint,
            "bias_constraint": bias_constraint,
        }
        super().__init__(  # without `sliding_window` and `use_gate`, new in Keras 3.15
            num_heads,
            key_dim,
            value_dim=value_dim,
            dropout=check_rate(dropout, "dropout"),
            output_shape=output_shape,
            attention_axes=tuple(attention_axes)  # a tuple is loaded from a file as a list
            if isinstance(attention_axes, list)
            else attention_axes,
            seed=seed,
            **projections,
            **kwargs,
        )
        self.sliding_window, self.use_gate = sliding_window, use_gate
        self.num_key_value_heads, self.rotary_base = num_key_value_heads, rotary_base
        self._heads = heads
        self._requested_flash_attention = flash_attention
        self.head_projections = HeadProjections(**projections, dtype=self.dtype_policy)

    def build(self, query_shape: Shape, value_shape: Shape, key_shape: Shape | None = None) -> None:
        """Creates the projections; a `ValueError` if shapes do not fit together."""
        check_projected_shapes({"query": query_shape, "value": value_shape, "key": key_shape})
        output_shape = self.compute_output_shape(query_shape, value_shape, key_shape)
        rank = len(query_shape) + 1  # of the projected tensors
        self._axes = AttentionAxes(rank, self.attention_axes)
        if self.sliding_window is not None:
            self._axes.require_single("sliding_window")
        self._heads.check_axes(self._axes)
        make = self.head_projections  # attributes and names as in Keras, also in saved weights
        shared, values = self._heads.key_value_heads, (self.num_heads, self.value_dim)
        self._query_dense = make.to_heads("query", query_shape, (self.num_heads, self.key_dim))
        self._key_dense = make.to_heads(
            "key", value_shape if key_shape is None else key_shape, (shared, self.key_dim)
        )
        if self.use_gate:
            self._gate_dense = make.to_heads("gate", query_shape, values, activation="sigmoid")
        self._value_dense = make.to_heads("value", value_shape, (shared, self.value_dim))
        if self.dropout > 0:
            self.seed_generator = keras.random.SeedGenerator(self.seed)
        attended = (*query_shape[:-1], *values)
        self._output_dense = make.from_heads("attention_output", attended, output_shape[rank - 2 :])

    def add_score_kernel(self, shape: tuple[int, int], name: str) -> Any:
        """Adds a weight (H, …) used to compute scores; both stay float32 under 16-bit policies."""
        return self.add_weight(
            shape=shape,
            initializer=self.head_projections.kernel(input_axes=1),
            regularizer=self.head_projections.kernel_regularizer,
            constraint=self.head_projections.kernel_constraint,
            autocast=False,
            name=name,
        )

    def project_query(self, query: Tensor, start: Any = 0) -> Tensor:
        """Projects to queries (B, T, ..., N, H), of which the first stands at position `start`."""
        return self._heads.rotated(projected(self.query_dense, query), self._axes, start)

    def project(
        self, value: Tensor, key: Tensor | None = None, start: Any = 0
    ) -> tuple[Tensor, Tensor]:
        """Projects to keys (B, S, ..., G, H) and values (B, S, ..., G, V), as stored in a cache."""
        keys = projected(self.key_dense, value if key is None else key)
        return self._heads.rotated(keys, self._axes, start), projected(self.value_dense, value)

    def get_config(self) -> dict[str, Any]:
        """Returns every constructor argument."""
        own = {
            "sliding_window": self.sliding_window,
            "flash_attention": self._requested_flash_attention,
            "use_gate": self.use_gate,
            "num_key_value_heads": self.num_key_value_heads,
            "rotary_base": self.rotary_base,
        }
        return {**super().get_config(), **own}
