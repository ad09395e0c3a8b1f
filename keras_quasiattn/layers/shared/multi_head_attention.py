"""Masks and axis handling common to all multi-head layers; one hook, `attend`."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import keras
from keras import ops

from keras_quasiattn.layers.shared.arguments import check_attention_mask, check_sequence_mask
from keras_quasiattn.layers.shared.attention_axes import AttentionAxes
from keras_quasiattn.layers.shared.known_inputs import KnownInputs
from keras_quasiattn.layers.shared.mechanisms import Mechanism
from keras_quasiattn.layers.shared.projected_heads import ProjectedHeads, Shape
from keras_quasiattn.layers.shared.projection import projected
from keras_quasiattn.ops.finite import make_unknown
from keras_quasiattn.ops.masking import (
    as_boolean_mask,
    causal_mask,
    combine_masks,
    sliding_window_mask,
    zero_masked,
)
from keras_quasiattn.ops.recording import mark_visible
from keras_quasiattn.ops.score_bias import check_score_bias
from keras_quasiattn.ops.training import training_step

Tensor = Any
# Methods that subclasses of Keras' layer may override, and which its `call` and `build` use.
_HOOKS_OF_KERAS = tuple(
    name
    for name, value in vars(keras.layers.MultiHeadAttention).items()
    if name.startswith("_") and not name.startswith("__") and callable(value)
)


class MultiHeadQuasiAttention(ProjectedHeads):
    """`keras.layers.MultiHeadAttention` with other attention weights; subclasses define them.

    Constructor, call arguments, sublayers (`query`, `key`, `value`, `attention_output`) and
    configuration are those of Keras 3.15, and more: `num_key_value_heads`, `rotary_base` (see
    `HeadOptions`) and the call's `attention_bias`. Masks must be boolean or 0/1 integers, and an
    explicit `query_mask`, `value_mask` or `key_mask` overrides the mask that Keras attached to the
    tensor.
    What a position holds, NaN included, affects no row that may not see it, and no gradient of one;
    a row that sees NaN or infinity is NaN. A row that is masked or has nothing to attend to is
    exactly 0, also after the output projection. Returning the scores does not change the output.
    Kernels start larger than in Keras before 3.15 (see `ProjectionInitializer`). A subclass
    computes something else by overriding `attend`; `call` uses no private method of Keras' layer,
    so it refuses one that a subclass overrides without `call`.

    Raises:
        ValueError: `flash_attention=True`, `dropout` outside [0, 1), a float mask, or wrong shapes.
        TypeError: a subclass overrides `_compute_attention` or the like, which nothing would call.
    """

    options = Mechanism()  # defines the weights
    # Constructor arguments for cross-attention, which stop queries from affecting each other.
    cross_attention_options: ClassVar[Mapping[str, Any]] = {}

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
            **options: `is_causal`, `dropout` (0 if off), `dropout_seed`, `return_scores`; `bias`
                (broadcasts as the mask) where the call has one.

        Returns:
            (B, ..., N, T, V) or, with `return_scores`, that and the weights (B, ..., N, T, S).
        """
        scale = self.key_dim**-0.5
        options |= {"learned": self._learned, "scale": scale, "paper_scale": scale}
        return self.options.attend(query, key, value, mask, **options)

    def build(self, query_shape: Shape, value_shape: Shape, key_shape: Shape | None = None) -> None:
        """Creates projections and learned weights; a `ValueError` if shapes do not fit together."""
        if type(self).call is MultiHeadQuasiAttention.call:
            self._check_overrides()
        super().build(query_shape, value_shape, key_shape)
        self._learned = self.options.make_weights(self, self.key_dim, self.num_heads)

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
        *,
        attention_bias: Tensor | None = None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Attends; arguments and results as in `keras.layers.MultiHeadAttention`.

        `attention_bias` holds floats that broadcast to the scores (B, ..., N, T, S); −∞ hides a
        pair as a mask does, for every mechanism. Under a 16-bit policy Keras rounds them to 16
        bits, as it does every argument: below −65504, float16 is −∞. The sum is float32.
        """
        self._check_overrides()
        axes = self._axes
        # What one mask hides from queries it also hides as a query; any other mask, not.
        hides = key_mask is not None or (value_mask is not None and value_mask is not query_mask)
        query_mask, value_mask, key_mask, attention_mask = (
            as_boolean_mask(mask, name)
            for name, mask in self._checked_masks(
                query,
                value,
                query_mask=query_mask,
                value_mask=value_mask,
                key_mask=key_mask,
                attention_mask=attention_mask,
            ).items()
        )
        lengths = axes.lengths(query), axes.lengths(value)
        bias = axes.pair_bias(attention_bias, query, value, self.num_heads)
        pairs = combine_masks(axes.pair_mask(attention_mask, *lengths), self._window(*lengths))
        source_mask = combine_masks(value_mask, key_mask)
        given = (query, value, key, query_mask, source_mask)
        hides = hides or use_causal_mask or pairs is not None
        if hides or bias is None:
            inputs = KnownInputs(*given, look=hides)
        else:
            inputs = KnownInputs.unless_all_is_seen(bias, *given)
        # (B, T, ..., N, H), (B, S, ..., G, H), (B, S, ..., G, V)
        heads_query, heads_key, heads_value = inputs.project(self)
        # Where a query sees NaN, and where it is real and sees anything: (B, T, ...), or None.
        unknown, rows = inputs.rows(axes, pairs, use_causal_mask, bias)
        if self.weights_see_all_pairs and not use_causal_mask:
            unknown = inputs.anywhere(axes, unknown)
        mask = combine_masks(axes.source_mask(source_mask), pairs)
        output, scores = self._attend(
            heads_query,
            heads_key,
            heads_value,
            combine_masks(mask, axes.target_mask(query_mask))  # T·S memory: only if needed
            if self.weights_see_all_pairs
            or self.options.counts_pairs
            or return_attention_scores
            or attention_bias is not None  # which may be NaN there
            else mask,
            training=training,
            return_scores=return_attention_scores,
            is_causal=use_causal_mask,
            bias=bias,
            unknown=axes.target_mask(unknown),
        )
        mark_visible(axes.target_mask(query_mask))
        if self.use_gate:
            output = output * projected(self._gate_dense, inputs.query)
        output = projected(self.output_dense, output)  # (B, T, ..., features)
        if unknown is not None:
            output = make_unknown(output, unknown)
        if rows is not None:  # elsewhere the output is 0: no bias of the projection there
            features = tuple(range(len(rows.shape), len(output.shape)))
            output = zero_masked(output, ops.expand_dims(rows, features))
        return (output, scores) if return_attention_scores else output

    def _checked_masks(
        self, query: Tensor, value: Tensor, *, attention_mask: Any, **masks: Any
    ) -> dict[str, Any]:
        """The masks by name; a `ValueError` names one that does not fit query and value."""
        for name, mask in masks.items():
            of = query if name == "query_mask" else value
            check_sequence_mask(mask, name, of, "`attention_mask`")
        axes = AttentionAxes(len(query.shape) + 1, self.attention_axes)
        scores_shape = axes.scores_shape(query.shape, value.shape, self.num_heads)
        positions = "`query_mask` and `value_mask`"
        check_attention_mask(
            attention_mask, "attention_mask", scores_shape, positions, len(axes.axes)
        )
        return {**masks, "attention_mask": attention_mask}

    def _check_overrides(self) -> None:
        own = type(self)
        ignored = [
            name
            for name in _HOOKS_OF_KERAS
            if getattr(own, name) is not getattr(MultiHeadQuasiAttention, name)
        ]
        if ignored:
            raise TypeError(
                "A subclass of a multi-head layer of this package must override `attend` or `call` "
                f"to compute something else. Received: {own.__name__}, which overrides "
                f"{', '.join(f'`{name}`' for name in ignored)} of keras.layers.MultiHeadAttention, "
                "which is never called"
            )

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
        bias: Tensor | None = None,
        unknown: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Attends from heads (B, T, ..., N, H), mask (B, ..., N, T, S), to (B, T, ..., N, V).

        Keys and values have G heads. The scores of `unknown` rows, (B, ..., 1, T, 1), are NaN.
        """
        axes = self._axes
        targets, sources = axes.lengths(query), axes.lengths(key)
        if is_causal:
            axes.require_single("use_causal_mask")
        drops = bool(training) and self.dropout > 0
        with training_step(training):
            result = self.attend(
                axes.heads_first(query),
                self._heads.one_per_query_head(axes.heads_first(key)),
                self._heads.one_per_query_head(axes.heads_first(value)),
                mask,
                is_causal=is_causal,
                dropout=self.dropout if drops else 0.0,
                dropout_seed=self.seed_generator.next() if drops else None,
                return_scores=return_scores,
                **({} if bias is None else {"bias": bias}),
            )
        output, scores = result if return_scores else (result, None)
        if return_scores:
            if unknown is not None:
                seen = causal_mask(*ops.shape(scores)[-2:]) if is_causal else None
                scores = zero_masked(make_unknown(scores, unknown), combine_masks(mask, seen))
            scores = axes.unflatten_scores(scores, targets, sources)
        return axes.heads_last(output, targets), scores

    def _compute_attention(  # for caches, and for a subclass with a `call` as in Keras
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
        *,
        attention_bias: Tensor | None = None,
    ) -> Any:
        """Returns symbolic output (B, T, ..., features), and scores (B, ..., N, T, S)."""
        self._checked_masks(
            query,
            value,
            query_mask=query_mask,
            value_mask=value_mask,
            key_mask=key_mask,
            attention_mask=attention_mask,
        )
        axes = AttentionAxes(len(query.shape) + 1, self.attention_axes)
        scores_shape = axes.scores_shape(query.shape, value.shape, self.num_heads)
        check_score_bias(attention_bias, scores_shape, "attention_bias")
        key_shape = None if key is None else key.shape
        shape = self.compute_output_shape(query.shape, value.shape, key_shape)
        output = keras.KerasTensor(shape, dtype=self.compute_dtype)
        if not return_attention_scores:
            return output
        return output, keras.KerasTensor(scores_shape, dtype=self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        """Returns every constructor argument."""
        return {**super().get_config(), **dataclasses.asdict(self.options)}
