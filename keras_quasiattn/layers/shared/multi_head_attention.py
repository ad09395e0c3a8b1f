"""Projections, masks and axis handling common to all multi-head layers; one hook, `attend`."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import keras
from keras import ops

from keras_quasiattn.layers.shared.arguments import (
    check_positive_integer,
    check_projected_shapes,
    check_rate,
)
from keras_quasiattn.layers.shared.attention_axes import AttentionAxes
from keras_quasiattn.layers.shared.head_projections import HeadProjections
from keras_quasiattn.layers.shared.mechanisms import Mechanism
from keras_quasiattn.layers.shared.projection import projected
from keras_quasiattn.ops.masking import (
    as_boolean_mask,
    check_mask,
    combine_masks,
    finite_positions,
    sliding_window_mask,
    zero_masked,
    zero_padding,
)
from keras_quasiattn.ops.recording import mark_visible
from keras_quasiattn.ops.training import training_step

Tensor = Any
Shape = tuple[int | None, ...]


class MultiHeadQuasiAttention(keras.layers.MultiHeadAttention):
    """`keras.layers.MultiHeadAttention` with other attention weights; subclasses define them.

    Constructor, call arguments, sublayers (`query`, `key`, `value`, `attention_output`) and
    configuration are those of Keras 3.15. Masks must be boolean or 0/1 integers, and an explicit
    `query_mask`, `value_mask` or `key_mask` overrides the mask that Keras attached to the tensor.
    Values at masked positions, NaN included, do not affect others. A row that is masked or has
    nothing to attend to is exactly 0, also after the output projection. Returning the scores does
    not change the output. Kernels start larger than in Keras before 3.15 (see
    `ProjectionInitializer`).

    Raises:
        ValueError: `flash_attention=True`, `dropout` outside [0, 1), a float mask, or wrong shapes.
    """

    options = Mechanism()  # defines the weights
    # Constructor arguments for cross-attention, which stop queries from affecting each other.
    cross_attention_options: ClassVar[Mapping[str, Any]] = {}

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
        **kwargs: Any,
    ) -> None:
        if flash_attention:
            raise ValueError(
                f"`flash_attention` must be None or False: {type(self).__name__} has no flash "
                "kernel. Received: flash_attention=True"
            )
        check_positive_integer(num_heads, "num_heads")
        check_positive_integer(key_dim, "key_dim")
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
        self._requested_flash_attention = flash_attention
        self.head_projections = HeadProjections(**projections, dtype=self.dtype_policy)

    def _set_options(self, options: Mechanism) -> None:
        """Sets the options, and each of them as an attribute, as Keras layers do with arguments."""
        options.prepare(self, self.num_heads)
        self.options = options
        for name, value in dataclasses.asdict(options).items():
            setattr(self, name, value)

    @property
    def weights_see_all_pairs(self) -> bool:
        """Whether a weight depends on other queries, so that the op must exclude masked queries."""
        return self.options.sees_all_pairs

    def attend(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **options: Any
    ) -> Any:
        """Computes the attention with `options`.

        Args:
            query: (B, ..., N, T, H).
            key: (B, ..., N, S, H).
            value: (B, ..., N, S, V).
            mask: boolean, broadcasts to (B, ..., N, T, S), or None.
            **options: `is_causal`, `dropout` (0 if off), `dropout_seed`, `return_scores`.

        Returns:
            (B, ..., N, T, V) or, with `return_scores`, that and the weights (B, ..., N, T, S).
        """
        scale = self.key_dim**-0.5
        options |= {"learned": self._learned, "scale": scale, "paper_scale": scale}
        return self.options.attend(query, key, value, mask, **options)

    def build(self, query_shape: Shape, value_shape: Shape, key_shape: Shape | None = None) -> None:
        """Creates projections and learned weights; a `ValueError` if shapes do not fit together."""
        check_projected_shapes({"query": query_shape, "value": value_shape, "key": key_shape})
        output_shape = self.compute_output_shape(query_shape, value_shape, key_shape)
        rank = len(query_shape) + 1  # of the projected tensors
        self._axes = AttentionAxes(rank, self.attention_axes)
        if self.sliding_window is not None:
            self._axes.require_single("sliding_window")
        make = self.head_projections  # attributes and names as in Keras, also in saved weights
        keys, values = (self.num_heads, self.key_dim), (self.num_heads, self.value_dim)
        self._query_dense = make.to_heads("query", query_shape, keys)
        self._key_dense = make.to_heads(
            "key", value_shape if key_shape is None else key_shape, keys
        )
        if self.use_gate:
            self._gate_dense = make.to_heads("gate", query_shape, values, activation="sigmoid")
        self._value_dense = make.to_heads("value", value_shape, values)
        if self.dropout > 0:
            self.seed_generator = keras.random.SeedGenerator(self.seed)
        attended = (*query_shape[:-1], *values)
        self._output_dense = make.from_heads("attention_output", attended, output_shape[rank - 2 :])
        self._learned = self.options.make_weights(self, self.key_dim, self.num_heads)

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

    def project(self, value: Tensor, key: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Projects to keys (B, S, ..., N, H) and values (B, S, ..., N, V), as stored in a cache."""
        source = value if key is None else key
        return projected(self.key_dense, source), projected(self.value_dense, value)

    def call(
        self,
        query: Tensor,
        value: Tensor,
        key: Tensor | None = None,
        query_mask: Tensor | None = None,
        value_mask: Tensor | None = None,
        key_mask: Tensor | None = None,
        attention_mask: Tensor | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
        use_causal_mask: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Attends; arguments and results as in `keras.layers.MultiHeadAttention`."""
        axes = self._axes
        query_mask = as_boolean_mask(query_mask, "query_mask")
        value_mask = as_boolean_mask(value_mask, "value_mask")
        key_mask = as_boolean_mask(key_mask, "key_mask")
        attention_mask = as_boolean_mask(attention_mask, "attention_mask")
        query = zero_padding(query, query_mask)
        value = zero_padding(value, value_mask)
        key = None if key is None else zero_padding(key, key_mask)
        if use_causal_mask:  # clear NaN ahead of a query (0·NaN is NaN); it is restored below
            finite = finite_positions(value)
            finite = finite if key is None else ops.logical_and(finite, finite_positions(key))
            value, key = (
                zero_padding(value, finite),
                None if key is None else zero_padding(key, finite),
            )
        lengths = axes.lengths(query), axes.lengths(value)
        source_mask = axes.source_mask(combine_masks(value_mask, key_mask))
        mask = combine_masks(
            source_mask, axes.pair_mask(attention_mask, *lengths), self._window(*lengths)
        )
        heads_key, heads_value = self.project(value, key)  # (B, S, ..., N, H), (B, S, ..., N, V)
        output, scores = self._attend(
            projected(self.query_dense, query),
            heads_key,
            heads_value,
            combine_masks(mask, axes.target_mask(query_mask))  # T·S memory: only if needed
            if self.weights_see_all_pairs or return_attention_scores
            else mask,
            training=training,
            return_scores=return_attention_scores,
            is_causal=use_causal_mask,
        )
        mark_visible(axes.target_mask(query_mask))
        if self.use_gate:
            output = output * projected(self._gate_dense, query)
        output = projected(self.output_dense, output)  # (B, T, ..., features)
        if use_causal_mask:
            seen = axes.queries_seeing_only(finite, lengths[0])  # (B, T, ...)
            seen = ops.expand_dims(seen, tuple(range(len(seen.shape), len(output.shape))))
            output = ops.where(seen, output, ops.cast(float("nan"), output.dtype))
        rows = query_mask  # where False, the output is set to 0: no bias of the projection there
        if mask is not None:
            rows = combine_masks(rows, axes.rows_with_a_key(mask, lengths[0], use_causal_mask))
        if not all(value.shape[axis] for axis in axes.axes):  # no keys, or an unknown length
            rows = combine_masks(
                rows, ops.full(ops.shape(query)[:-1], ops.size(value) > 0, dtype="bool")
            )
        if rows is not None:
            features = tuple(range(len(rows.shape), len(output.shape)))
            output = zero_masked(output, ops.expand_dims(rows, features))
        return (output, scores) if return_attention_scores else output

    def _window(self, targets: tuple[Any, ...], sources: tuple[Any, ...]) -> Tensor | None:
        if self.sliding_window is None:
            return None
        window = sliding_window_mask(targets[0], sources[0], self.sliding_window)
        return self._axes.pair_mask(window, targets, sources)

    def _attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        *,
        training: bool | None,
        return_scores: bool,
        is_causal: bool,
    ) -> tuple[Tensor, Tensor | None]:
        """Attends from heads (B, T, ..., N, H), mask (B, ..., N, T, S), to (B, T, ..., N, V)."""
        axes = self._axes
        targets, sources = axes.lengths(query), axes.lengths(key)
        if is_causal:
            axes.require_single("use_causal_mask")
        drops = bool(training) and self.dropout > 0
        with training_step(training):
            result = self.attend(
                axes.heads_first(query),
                axes.heads_first(key),
                axes.heads_first(value),
                mask,
                is_causal=is_causal,
                dropout=self.dropout if drops else 0.0,
                dropout_seed=self.seed_generator.next() if drops else None,
                return_scores=return_scores,
            )
        output, scores = result if return_scores else (result, None)
        scores = axes.unflatten_scores(scores, targets, sources) if return_scores else None
        return axes.heads_last(output, targets), scores

    def _compute_attention(  # the extension point that Keras documents; inputs are projected
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Tensor | None = None,
        training: bool | None = None,
        return_attention_scores: bool = False,
        use_causal_mask: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        lengths = self._axes.lengths(query), self._axes.lengths(key)
        mask = self._axes.pair_mask(as_boolean_mask(attention_mask, "attention_mask"), *lengths)
        mask = combine_masks(mask, self._window(*lengths))
        return self._attend(
            query,
            key,
            value,
            mask,
            training=training,
            return_scores=return_attention_scores,
            is_causal=use_causal_mask,
        )

    def compute_output_spec(
        self,
        query: Tensor,
        value: Tensor,
        key: Tensor | None = None,
        query_mask: Tensor | None = None,
        value_mask: Tensor | None = None,
        key_mask: Tensor | None = None,
        attention_mask: Tensor | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
        use_causal_mask: bool = False,
    ) -> Any:
        """Returns symbolic output (B, T, ..., features), and scores (B, ..., N, T, S)."""
        check_mask(query_mask, "query_mask")
        check_mask(value_mask, "value_mask")
        check_mask(key_mask, "key_mask")
        check_mask(attention_mask, "attention_mask")
        key_shape = None if key is None else key.shape
        shape = self.compute_output_shape(query.shape, value.shape, key_shape)
        output = keras.KerasTensor(shape, dtype=self.compute_dtype)
        if not return_attention_scores:
            return output
        axes = AttentionAxes(len(query.shape) + 1, self.attention_axes)
        scores_shape = axes.scores_shape(query.shape, value.shape, self.num_heads)
        return output, keras.KerasTensor(scores_shape, dtype=self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        """Returns every constructor argument."""
        own = {
            "sliding_window": self.sliding_window,
            "flash_attention": self._requested_flash_attention,
            "use_gate": self.use_gate,
        }
        return {**super().get_config(), **own, **dataclasses.asdict(self.options)}
