"""The multi-head layer that every attention shares: projections, masks, heads, and one hook."""

import dataclasses
import inspect
import math
import string
from typing import Any, ClassVar

import keras
from keras import ops

from keras_quasiattn.attention.base import Attention, ShowsOptions, for_any_length
from keras_quasiattn.attention.start import Start
from keras_quasiattn.core.arguments import (
    call_arguments,
    check,
    check_positive_integer,
    check_projected_shapes,
    check_rate,
    is_number,
)
from keras_quasiattn.core.configured import QuantizedParts, clone_initializer
from keras_quasiattn.core.masks import (
    Mask,
    as_boolean_mask,
    causal_mask,
    check_attention_mask,
    check_sequence_mask,
    combine_masks,
    finite_positions,
    for_all_positions,
    largest,
    make_unknown,
    real_rows,
    sliding_window_mask,
    zero_masked,
    zero_padding,
)
from keras_quasiattn.core.positions import rotary_embedding
from keras_quasiattn.core.score_bias import (
    as_score_bias,
    check_score_bias,
    hide_where_infinite,
    with_hidden_pairs,
)
from keras_quasiattn.core.tensors import check_lengths, training_call, with_rank

Tensor = Any
Shape = tuple[int | None, ...]
_DIVIDES_ACTIVITY_LOSS = tuple(map(int, keras.__version__.split(".")[:2])) >= (3, 14)
# Methods that Keras' `call` and `build` use, so that its subclasses may override them.
_HOOKS_OF_KERAS = tuple(
    name
    for name, value in vars(keras.layers.MultiHeadAttention).items()
    if name.startswith("_") and not name.startswith("__") and callable(value)
)


class MultiHeadQuasiAttention(ShowsOptions, QuantizedParts, keras.layers.MultiHeadAttention):
    """`keras.layers.MultiHeadAttention` with other attention weights; subclasses choose them.

    Constructor, call arguments, sublayers (`query`, `key`, `value`, `attention_output`) and
    configuration are as in Keras 3.15. There are four more arguments: `num_key_value_heads`,
    `rotary_base`, `start` and, in calls, `attention_bias`. Masks must be boolean or 0/1 integers,
    and an explicit `query_mask`, `value_mask` or `key_mask` overrides the tensor's Keras mask.

    The content of a position, NaN included, affects only the rows that may see it, and their
    gradients; a row that sees NaN or infinity is NaN. A row that is masked or has nothing to attend
    to is exactly 0, even after the output projection. Returning scores changes no output.

    Kernels start larger than in Keras before 3.15 (see `ProjectionInitializer`). A subclass that
    computes something else overrides `attend`. `call` uses no private method of Keras' layer, so
    overriding one without `call` is an error.

    Args:
        num_heads: number of heads N.
        key_dim: size H of each head for query and key.
        value_dim: size of each head for value. Defaults to `key_dim`.
        dropout: fraction of the weights dropped in training. Defaults to 0.
        use_bias: whether the projections have biases. Defaults to True.
        output_shape: features of the output. Defaults to the features of the query.
        attention_axes: axes to attend over. Defaults to all axes between batch and features.
        sliding_window: if set, a query sees only keys at most `sliding_window - 1` positions away.
            Defaults to None: all keys.
        flash_attention: None or False; there is no flash kernel.
        kernel_initializer: initializer of the projection kernels. Defaults to "glorot_uniform".
        bias_initializer: initializer of the projection biases. Defaults to "zeros".
        kernel_regularizer: regularizer of the projection kernels. Defaults to None.
        bias_regularizer: regularizer of the projection biases. Defaults to None.
        activity_regularizer: regularizer of the projections' outputs. Defaults to None.
        kernel_constraint: constraint on the projection kernels. Defaults to None.
        bias_constraint: constraint on the projection biases. Defaults to None.
        use_gate: whether to multiply the heads' output by a sigmoid projection of the query.
            Defaults to False.
        seed: seed of the dropout. Defaults to None: a random one.
        num_key_value_heads: number of key and value heads G, which divides N; each serves N / G
            query heads, the first one the first N / G and so on. Their projections and caches have
            G heads. Defaults to N.
        rotary_base: base of the rotary position embedding of queries and keys
            (`ops.rotary_embedding`), such as 10_000.0; `key_dim` must then be even. Defaults to
            None: no rotation.
        start: another attention that the layer computes at first, as set by
            `models.swap_attention`: a dict with its name `attention`, its `options`, and the `form`
            in which this layer's own attention joins it, "added" or "blended". Defaults to None.
        **kwargs: the options of the attention, and `name`, `dtype` and the like.

    Raises:
        ValueError: `flash_attention=True`, `dropout` outside [0, 1), a size that is not a positive
            integer, `num_key_value_heads` that do not divide `num_heads`, a float mask, or shapes
            that do not fit together.
        TypeError: a subclass overrides `_compute_attention` or the like, which is never called.

    Returns:
        (B, T, features); with `return_attention_scores` also the weights (B, N, T, S).

    Example:
    >>> import dataclasses
    >>> from keras_quasiattn.attention import ScoreAttention
    >>> @dataclasses.dataclass
    ... class Same(ScoreAttention):
    ...     def weights(self, scores, mask, learned):
    ...         weights = keras.ops.ones_like(scores) / scores.shape[-1]
    ...         return weights if mask is None else keras.ops.where(mask, weights, 0.0)
    >>> class MultiHeadMean(MultiHeadQuasiAttention):
    ...     options_class = Same
    >>> x = keras.ops.ones((2, 5, 16))
    >>> tuple(MultiHeadMean(num_heads=2, key_dim=8)(x, x).shape)
    (2, 5, 16)

    Attributes:
        options_class: class of the attention; its fields become arguments and read-only attributes.
        options: the attention.
    """

    options_class: ClassVar[type[Attention]] = Attention

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Add the options of the attention to the signature of the constructor."""
        super().__init_subclass__(**kwargs)
        if "options_class" in vars(cls) and "__init__" not in vars(cls):

            def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
                super(cls, self).__init__(*args, **kwargs)

            __init__.__signature__ = _signature_with_options(cls)  # type: ignore[attr-defined]
            cls.__init__ = __init__  # type: ignore[method-assign]

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
        start: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        fields = {field.name for field in dataclasses.fields(self.options_class)}
        options = self.options_class(**{name: kwargs.pop(name) for name in fields & kwargs.keys()})
        kind = type(self).__name__
        expected = f"None or False: {kind} has no flash kernel"
        check(not flash_attention, flash_attention, "flash_attention", expected)
        check_positive_integer(num_heads, "num_heads")
        check_positive_integer(key_dim, "key_dim")
        check_positive_integer(num_key_value_heads, "num_key_value_heads", optional=True)
        check_positive_integer(value_dim, "value_dim", optional=True)
        check_positive_integer(sliding_window, "sliding_window", optional=True)
        if num_key_value_heads and num_heads % num_key_value_heads:
            raise ValueError(
                "`num_key_value_heads` must divide `num_heads`. "
                f"Received: num_key_value_heads={num_key_value_heads}, num_heads={num_heads}"
            )
        of_projections = {
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
            use_bias=use_bias,
            output_shape=output_shape,
            attention_axes=tuple(attention_axes)  # a tuple is loaded from a file as a list
            if isinstance(attention_axes, list)
            else attention_axes,
            kernel_initializer=kernel_initializer,
            seed=seed,
            **of_projections,
            **kwargs,
        )
        # Keras' constructor refuses it where flash attention is enabled, which has no effect here.
        self._dropout = check_rate(dropout, "dropout")
        self.sliding_window, self.use_gate = sliding_window, use_gate
        self.num_key_value_heads, self.rotary_base = num_key_value_heads, rotary_base
        self._requested_flash_attention = flash_attention
        self._projection_arguments = of_projections
        self._kernel_initializer = keras.initializers.get(kernel_initializer)
        options.prepare(self, num_heads)
        self.show_options(options)
        self._start = None if start is None else Start(self, **start)
        if rotary_base is not None:
            _check_rotary_base(rotary_base, key_dim, self._all_options[0].score_parts)

    @property
    def weights_see_all_pairs(self) -> bool:
        """Whether a weight depends on other queries, so that masked queries must be hidden."""
        return any(options.sees_all_pairs for options in self._all_options)

    @property
    def cross_attention_arguments(self) -> dict[str, Any]:
        """Constructor arguments to change where queries must not affect each other."""
        changes = dict(self.options.cross_attention_options)
        if self._start is not None:
            changes |= self._start.cross_attention_arguments
        return changes

    @property
    def _all_options(self) -> list[Attention]:
        """The attentions that a call may compute; the projections were trained for the first."""
        return [self.options] if self._start is None else [self._start.options, self.options]

    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Mask, **options: Any) -> Any:
        """Attend in each head; override this to compute something else.

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
        options |= {"learned": self._learned, "scale": self.key_dim**-0.5}
        attend = self.options.attend
        if self.options.rows_are_independent:
            attend = for_any_length(attend, query, key, return_scores=options["return_scores"])
        return attend(query, key, value, mask, **options)

    def build(self, query_shape: Shape, value_shape: Shape, key_shape: Shape | None = None) -> None:
        """Create projections and weights; raise a `ValueError` if the shapes do not match."""
        if type(self).call is MultiHeadQuasiAttention.call:
            self._check_overrides()
        check_projected_shapes({"query": query_shape, "value": value_shape, "key": key_shape})
        output_shape = self.compute_output_shape(query_shape, value_shape, key_shape)
        rank = len(query_shape) + 1  # of the projected tensors
        self._axes = AttentionAxes(rank, self.attention_axes)
        for name in ("sliding_window", "rotary_base"):
            if getattr(self, name) is not None:
                self._axes.require_single(name)
        # Attributes and names are as in Keras, and so are saved weights.
        make = self.make_projection
        shared = self.num_key_value_heads or self.num_heads
        values = (self.num_heads, self.value_dim)
        key_shape = value_shape if key_shape is None else key_shape
        self._query_dense = make("query", query_shape, (self.num_heads, self.key_dim))
        self._key_dense = make("key", key_shape, (shared, self.key_dim))
        if self.use_gate:
            self._gate_dense = make("gate", query_shape, values, activation="sigmoid")
        self._value_dense = make("value", value_shape, (shared, self.value_dim))
        if self.dropout > 0:
            self.seed_generator = keras.random.SeedGenerator(self.seed)
        heads_shape = (*query_shape[:-1], *values)
        self._output_dense = make(
            "attention_output", heads_shape, output_shape[rank - 2 :], inputs=2
        )
        self._make_weights(rank)

    def build_without_projections(self, rank: int) -> None:
        """Create what `attend` needs, for tensors of `rank` that another layer projects."""
        self._axes = AttentionAxes(rank, self.attention_axes)
        if self.dropout > 0:
            self.seed_generator = keras.random.SeedGenerator(self.seed)
        self._make_weights(rank)

    def _make_weights(self, rank: int) -> None:
        self._learned = self.options.make_weights(self, self.key_dim, self.num_heads)
        if self._start is not None:
            self._start.build_for(rank)

    def make_projection(
        self, name: str, shape: Shape, sizes: Shape, *, inputs: int = 1, activation: Any = None
    ) -> keras.layers.EinsumDense:
        """Make a built projection with the layer's initializers, regularizers and constraints.

        It is a `keras.layers.EinsumDense`, so LoRA and quantization work on it. It sums over the
        last `inputs` axes of its input, of `shape` (B, d1, …, dn, F), and gives axes of `sizes`.
        """
        # For one axis d, one input axis and two output axes the equation is abc,cde->abde.
        letters = string.ascii_lowercase
        kept = len(shape) - inputs
        outputs = letters[len(shape) : len(shape) + len(sizes)]
        given = self._projection_arguments
        # One object would draw the same numbers for all projections.
        bias = clone_initializer(keras.initializers.get(given["bias_initializer"]))
        dense = keras.layers.EinsumDense(
            f"{letters[: len(shape)]},{letters[kept : len(shape)]}{outputs}"
            f"->{letters[:kept]}{outputs}",
            output_shape=(*(None,) * (kept - 1), *sizes),
            activation=activation,
            bias_axes=outputs if self._use_bias else None,
            kernel_initializer=ProjectionInitializer(
                clone_initializer(self._kernel_initializer), inputs
            ),
            **{**given, "bias_initializer": bias, "activity_regularizer": None},
            dtype=self.dtype_policy,
            name=name,
        )
        # See `projected`.
        dense.example_regularizer = keras.regularizers.get(given["activity_regularizer"])
        dense.build(shape)
        # Without this, Keras would warn that the projection drops the mask. The attention layer
        # clears padding and sets the mask of its output itself.
        dense.supports_masking = True
        return dense

    def add_score_kernel(self, shape: tuple[int, ...], name: str) -> Any:
        """Add a weight (H, …) from which scores are computed, float32 under 16-bit policies."""
        return self.add_weight(
            shape,
            ProjectionInitializer(clone_initializer(self._kernel_initializer), 1),
            regularizer=self._projection_arguments["kernel_regularizer"],
            constraint=self._projection_arguments["kernel_constraint"],
            autocast=False,
            name=name,
        )

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
        """Attend, with the arguments and results of `keras.layers.MultiHeadAttention`.

        `attention_bias` holds floats that broadcast to the scores (B, ..., N, T, S); −∞ hides a
        pair. Under a 16-bit policy Keras rounds it, so values below −65504 become −∞ in float16.
        """
        self._check_overrides()
        self._check_masks(query, value, query_mask, value_mask, key_mask, attention_mask)
        # A mask given for both queries and keys hides a position in both roles; any other mask in
        # one.
        hides = key_mask is not None or (value_mask is not None and value_mask is not query_mask)
        # Two arguments may share a mask and must still share it afterwards.
        masks = (query_mask, value_mask, key_mask, attention_mask)
        boolean = {id(mask): as_boolean_mask(mask, "mask") for mask in masks}
        query_mask, value_mask, key_mask, attention_mask = (boolean[id(mask)] for mask in masks)
        query_mask = for_all_positions(query_mask, query)
        axes = self._axes
        lengths = axes.lengths(query), axes.lengths(value)
        bias = None
        if attention_bias is not None:
            bias = axes.pair_bias(attention_bias, query, value, self.num_heads)
        pairs = combine_masks(axes.pair_mask(attention_mask, *lengths), self._window(*lengths))
        source_mask = for_all_positions(combine_masks(value_mask, key_mask), value)
        given = (query, value, key, query_mask, source_mask)
        hides = hides or use_causal_mask or pairs is not None
        if hides or bias is None:
            inputs = KnownInputs(*given, look=hides)
        else:
            inputs = KnownInputs.unless_all_is_seen(bias, *given)
        # (B, T, ..., N, H), (B, S, ..., G, H), (B, S, ..., G, V)
        heads_query, heads_key, heads_value = inputs.project(self)
        # Which queries see NaN, and which are real and see anything: (B, T, ...), or None.
        unknown, rows = inputs.rows(axes, pairs, use_causal_mask, bias)
        if self.weights_see_all_pairs and not use_causal_mask:
            unknown = inputs.anywhere(axes, unknown)
        mask = combine_masks(axes.source_mask(source_mask), pairs)
        targets = axes.target_mask(query_mask)
        if (
            self.weights_see_all_pairs
            or return_attention_scores
            or attention_bias is not None  # which may be NaN there
        ):
            mask = combine_masks(mask, targets)  # T·S memory: only if needed
        with real_rows(targets, mask if value is query else None):
            output, scores = self._attend(
                heads_query,
                heads_key,
                heads_value,
                mask,
                training=training,
                return_scores=return_attention_scores,
                is_causal=use_causal_mask,
                bias=bias,
                unknown=axes.target_mask(unknown),
            )
        if self.use_gate:
            output = output * projected(self._gate_dense, inputs.query)
        output = projected(self.output_dense, output)  # (B, T, ..., features)
        if unknown is not None:
            output = make_unknown(output, unknown)
        if rows is not None:  # elsewhere the output is 0, without the bias of the projection
            features = tuple(range(len(rows.shape), len(output.shape)))
            output = zero_masked(output, ops.expand_dims(rows, features))
        return (output, scores) if return_attention_scores else output

    def _check_masks(
        self, query: Any, value: Any, query_mask: Any, value_mask: Any, key_mask: Any, pairs: Any
    ) -> None:
        """Raise a `ValueError` that names a mask which does not fit query and value."""
        check_sequence_mask(query_mask, "query_mask", query, "`attention_mask`")
        check_sequence_mask(value_mask, "value_mask", value, "`attention_mask`")
        check_sequence_mask(key_mask, "key_mask", value, "`attention_mask`")
        axes = self._axes_of(query)
        shape = axes.scores_shape(query.shape, value.shape, self.num_heads)
        masks = "`query_mask` and `value_mask`"
        check_attention_mask(pairs, "attention_mask", shape, masks, len(axes.axes))

    def _axes_of(self, query: Any) -> "AttentionAxes":
        return AttentionAxes(len(query.shape) + 1, self.attention_axes)

    def _check_overrides(self) -> None:
        own, base = type(self), MultiHeadQuasiAttention
        ignored = [
            name for name in _HOOKS_OF_KERAS if getattr(own, name) is not getattr(base, name)
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

    def project_query(self, query: Tensor, start: Any = 0) -> Tensor:
        """Project to queries (B, T, ..., N, H), the first of which is at position `start`."""
        return self._rotated(projected(self.query_dense, query), start)

    def project(
        self, value: Tensor, key: Tensor | None = None, start: Any = 0
    ) -> tuple[Tensor, Tensor]:
        """Project to keys (B, S, ..., G, H) and values (B, S, ..., G, V), as stored in a cache."""
        keys = projected(self.key_dense, value if key is None else key)
        return self._rotated(keys, start), projected(self.value_dense, value)

    def _rotated(self, heads: Tensor, start: Any) -> Tensor:
        """Rotate queries or keys (B, L, ..., N, H), the first of which is at position `start`."""
        if self.rotary_base is None:
            return heads
        *positions, count, features = ops.shape(heads)
        parts = self._all_options[0].score_parts
        split = ops.reshape(heads, (*positions, count * parts, features // parts))
        turned = rotary_embedding(split, start, self.rotary_base, axis=self._axes.axes[0])
        return ops.reshape(turned, (*positions, count, features))

    def _one_per_query_head(self, heads: Tensor) -> Tensor:
        """Repeat keys or values: (..., G, S, H) → (..., N, S, H)."""
        times = self.num_heads // (self.num_key_value_heads or self.num_heads)
        return heads if times == 1 else ops.repeat(heads, times, axis=len(heads.shape) - 3)

    def _attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Mask,
        *,
        training: bool | None,
        return_scores: bool,
        is_causal: bool,
        bias: Tensor | None = None,
        unknown: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend from heads (B, T, ..., N, H), mask (B, ..., N, T, S), to (B, T, ..., N, V).

        Keys and values have G heads. The scores of `unknown` rows, (B, ..., 1, T, 1), are NaN.
        """
        axes = self._axes
        targets, sources = axes.lengths(query), axes.lengths(key)
        if is_causal:
            axes.require_single("use_causal_mask")
        drops = bool(training) and self.dropout > 0
        attend = self.attend if self._start is None else self._start.beside(self.attend)
        query, key, value = map(axes.heads_first, (query, key, value))
        check_lengths(key, value, "key", "value")
        with training_call(training):
            result = attend(
                query,
                self._one_per_query_head(key),
                self._one_per_query_head(value),
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
                seen = combine_masks(mask, seen)
                seen = seen if bias is None else hide_where_infinite(seen, bias)
                scores = zero_masked(make_unknown(scores, unknown), seen)
            if len(axes.axes) > 1:  # (B, free…, N, T, S) → (B, free…, N, T…, S…)
                scores = ops.reshape(scores, (*ops.shape(scores)[:-2], *targets, *sources))
        return axes.heads_last(output, targets), scores

    def _compute_attention(  # for caches, and for a subclass with a `call` as in Keras
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Mask = None,
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

    def compute_output_spec(self, *args: Any, **kwargs: Any) -> Any:
        """Return symbolic output (B, T, ..., features), and scores (B, ..., N, T, S)."""
        given = call_arguments(self, args, kwargs)
        query, value, key = (given[name] for name in ("query", "value", "key"))
        masks = ("query_mask", "value_mask", "key_mask", "attention_mask")
        self._check_masks(query, value, *(given[name] for name in masks))
        scores_shape = self._axes_of(query).scores_shape(query.shape, value.shape, self.num_heads)
        if given.get("attention_bias") is not None:
            check_score_bias(given["attention_bias"], scores_shape, "attention_bias")
        key_shape = None if key is None else key.shape
        shape = self.compute_output_shape(query.shape, value.shape, key_shape)
        output = keras.KerasTensor(shape, dtype=self.compute_dtype)
        if not given["return_attention_scores"]:
            return output
        return output, keras.KerasTensor(scores_shape, dtype=self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        """Return every constructor argument."""
        names = ("sliding_window", "use_gate", "num_key_value_heads", "rotary_base")
        own = {name: getattr(self, name) for name in names}
        own["flash_attention"] = self._requested_flash_attention
        own["start"] = None if self._start is None else self._start.arguments
        return {**super().get_config(), **own, **dataclasses.asdict(self.options)}


def _signature_with_options(layer: type[MultiHeadQuasiAttention]) -> inspect.Signature:
    """Return the constructor's signature with the options before `**kwargs`."""
    signature = inspect.signature(layer.__init__)
    *known, kwargs = signature.parameters.values()
    options = inspect.signature(layer.options_class.__init__).parameters.values()
    own = [one.replace(kind=one.KEYWORD_ONLY) for one in options if one.name != "self"]
    inherited = [one for one in known if one.name not in {option.name for option in own}]
    return signature.replace(parameters=[*inherited, *own, kwargs])


def _check_rotary_base(base: Any, key_dim: int, parts: int) -> None:
    expected = "None or a number above 1, such as 10_000.0"
    check(is_number(base) and base > 1, base, "rotary_base", expected)
    if key_dim % (2 * parts):
        raise ValueError(
            f"`key_dim` must be a multiple of {2 * parts} with `rotary_base`, because features are "
            f"rotated in pairs. Received: key_dim={key_dim}, rotary_base={base!r}"
        )


class AttentionAxes:
    """The axes of projected tensors (B, d1, …, dn, N, H) that attention runs over.

    The other d are called free. Ops receive the attended axes flattened to one, of length T for
    queries and S for keys. `rank` is the rank of a projected tensor, and `axes` are counted as in
    `keras.layers.MultiHeadAttention`; one that is not between batch and features is a `ValueError`.
    """

    def __init__(self, rank: int, axes: tuple[int, ...] | None) -> None:
        sequence_axes = tuple(range(1, rank - 2))
        chosen = sequence_axes
        if axes is not None:
            chosen = tuple(a if a >= 0 else rank - 1 + a for a in axes)
        is_twice = len(set(chosen)) < len(chosen)
        if not chosen or is_twice or any(axis not in sequence_axes for axis in chosen):
            raise ValueError(
                "`attention_axes` must lie between the batch axis and the feature axis of the "
                f"input, so be one or more of {sequence_axes}, each once. "
                f"Received: attention_axes={axes}"
            )
        self.axes = chosen
        self.free_axes = tuple(axis for axis in sequence_axes if axis not in chosen)
        self._head_axis = rank - 2

    def require_single(self, name: str) -> None:
        """Raise a `ValueError` naming the option if attention runs over several axes."""
        if len(self.axes) != 1:
            raise ValueError(
                f"`{name}` requires a single attention axis, because positions on several axes "
                f"have no order. Received: attention_axes={self.axes}"
            )

    def lengths(self, x: Tensor) -> tuple[Any, ...]:
        """Return the lengths of the attended axes of `x` (B, d1, …, dn, ...)."""
        shape = ops.shape(x)
        return tuple(shape[axis] for axis in self.axes)

    def heads_first(self, x: Tensor) -> Tensor:
        """Return (B, d1, …, dn, N, H) → (B, free…, N, T, H)."""
        lengths = self.lengths(x)
        # (B, free…, N, T…, H)
        x = ops.transpose(x, (0, *self.free_axes, self._head_axis, *self.axes, self._head_axis + 1))
        return self._flatten(x, len(self.free_axes) + 2, lengths)

    def heads_last(self, x: Tensor, lengths: tuple[Any, ...]) -> Tensor:
        """Move heads: (B, free…, N, T, H) → (B, d1, …, dn, N, H), for attended `lengths`."""
        start = len(self.free_axes) + 2
        if len(lengths) > 1:
            shape = ops.shape(x)
            x = ops.reshape(x, (*shape[:start], *lengths, shape[-1]))  # (B, free…, N, T…, H)
        # `now` lists the axes of x in their present order; the transpose sorts them.
        now = (0, *self.free_axes, self._head_axis, *self.axes, self._head_axis + 1)
        return ops.transpose(x, tuple(now.index(axis) for axis in range(len(now))))

    def target_mask(self, mask: Tensor | None) -> Tensor | None:
        """Move a mask of queries: (B, d1, …, dn) → (B, free…, 1, T, 1)."""
        return None if mask is None else ops.expand_dims(self._positions(mask), (-3, -1))

    def source_mask(self, mask: Tensor | None) -> Tensor | None:
        """Move a mask of keys: (B, d1, …, dn) → (B, free…, 1, 1, S)."""
        return None if mask is None else ops.expand_dims(self._positions(mask), (-3, -2))

    def pair_mask(
        self, mask: Tensor | None, target_lengths: tuple[Any, ...], source_lengths: tuple[Any, ...]
    ) -> Tensor | None:
        """Flatten an attention mask: (…, [N,] T…, S…) → (…, N or 1, T, S), as in Keras."""
        if mask is None:
            return None
        count = len(self.axes)
        while len(mask.shape) < len(self.free_axes) + 2 + 2 * count:
            mask = ops.expand_dims(mask, len(mask.shape) - 2 * count)
        if count == 1:
            return mask
        # Broadcast axes of length 1 first, since the reshape needs full lengths.
        mask = ops.logical_and(mask, ops.ones((*target_lengths, *source_lengths), dtype="bool"))
        return self._flatten_pairs(mask, target_lengths, source_lengths)

    def pair_bias(self, bias: Tensor, query: Tensor, value: Tensor, num_heads: int) -> Tensor:
        """Flatten a bias that broadcasts to the scores: (…, T…, S…) → (B, free…, N, T, S).

        Missing or shared axes get length 1. A bias of another kind or shape is a `ValueError`.
        """
        shape = self.scores_shape(query.shape, value.shape, num_heads)
        bias = with_rank(as_score_bias(bias, shape, "attention_bias"), len(shape))
        if len(self.axes) == 1:
            return bias
        targets, sources = self.lengths(query), self.lengths(value)
        bias = bias + ops.zeros((*targets, *sources), dtype=bias.dtype)  # broadcasts, as above
        return self._flatten_pairs(bias, targets, sources)

    def rows_with_a_key(self, mask: Tensor, lengths: tuple[Any, ...], is_causal: bool) -> Tensor:
        """Return which queries may attend to a key in any head, (B, d1, …, dn), by a pair mask."""
        length = math.prod(lengths)
        if is_causal and mask.shape[-2] != 1:
            mask = combine_masks(mask, causal_mask(length, ops.shape(mask)[-1]))
        if is_causal and mask.shape[-2] == 1:
            # Compares the first visible key of each row with the row's own index. Combining a
            # causal mask with a (1, S) mask instead would take T·S memory.
            never = 2**31 - 1
            keys = ops.where(mask, ops.arange(ops.shape(mask)[-1], dtype="int32"), never)
            first = -largest(-keys, axis=(-3, -1), lowest=-never)  # (B, free…, 1)
            rows = ops.less_equal(first, ops.arange(length, dtype="int32"))
        else:
            rows = ops.any(mask, axis=(-3, -1))  # (B, free…, T or 1)
        if len(lengths) > 1:
            rows = ops.logical_and(rows, ops.ones((length,), dtype="bool"))
            rows = ops.reshape(rows, (*ops.shape(rows)[:-1], *lengths))  # (B, free…, T…)
        now = (0, *self.free_axes, *self.axes)
        return ops.transpose(rows, tuple(now.index(axis) for axis in range(len(now))))

    def scores_shape(self, query_shape: Shape, value_shape: Shape, num_heads: int) -> Shape:
        """Return the shape of the scores: (B, free…, N, T…, S…)."""
        free = (query_shape[axis] for axis in (0, *self.free_axes))
        targets = (query_shape[axis] for axis in self.axes)
        return (*free, num_heads, *targets, *(value_shape[axis] for axis in self.axes))

    def _flatten_pairs(
        self, x: Tensor, targets: tuple[Any, ...], sources: tuple[Any, ...]
    ) -> Tensor:
        leading = ops.shape(x)[: -2 * len(self.axes)]
        return ops.reshape(x, (*leading, math.prod(targets), math.prod(sources)))

    def _positions(self, mask: Tensor) -> Tensor:
        lengths = self.lengths(mask)
        mask = ops.transpose(mask, (0, *self.free_axes, *self.axes))  # (B, free…, T…)
        return self._flatten(mask, len(self.free_axes) + 1, lengths)

    def _flatten(self, x: Tensor, start: int, lengths: tuple[Any, ...]) -> Tensor:
        if len(lengths) == 1:
            return x
        shape = ops.shape(x)
        return ops.reshape(x, (*shape[:start], math.prod(lengths), *shape[start + len(lengths) :]))


class KnownInputs:
    """Inputs with zeros at masked positions and in place of NaN and infinity, once cleared.

    They are cleared before the projections, because a position that no query sees has the factor 0
    in sums and in the gradients of kernels, and 0 · NaN is NaN. If every row sees all unmasked
    positions, NaN spreads by itself, and looking for it (`look`) would cost time.

    `finite` says where the query, and where value and key, were finite: (B, T, ...) and
    (B, S, ...), or None if not searched. Without a `key`, keys are projected from `value`.
    """

    def __init__(
        self,
        query: Tensor,
        value: Tensor,
        key: Tensor | None,
        query_mask: Mask,
        source_mask: Mask,
        *,
        look: bool,
    ) -> None:
        self._masks = (query_mask, source_mask)
        self.finite: tuple[Tensor, Tensor] | None = None
        queries, sources = query_mask, source_mask
        if look:
            of_query = finite_positions(query)
            of_sources = of_query if value is query else finite_positions(value)
            if key is not None and key is not value:
                of_sources = ops.logical_and(of_sources, finite_positions(key))
            self.finite = (of_query, of_sources)
            queries, sources = map(combine_masks, self._masks, self.finite)
        self.query = self.value = zero_padding(query, queries)
        if value is not query or source_mask is not query_mask or key is not None:
            self.value = zero_padding(value, sources)
        self.key = None if key is None else zero_padding(key, sources)

    @classmethod
    def unless_all_is_seen(
        cls, bias: Tensor, query: Tensor, value: Tensor, key: Tensor | None, *masks: Tensor | None
    ) -> "KnownInputs":
        """Search only if the bias hides pairs; otherwise all positions count as finite."""

        def look(pairs: Tensor | None) -> list[Tensor]:
            inputs = cls(query, value, key, *masks, look=pairs is not None)
            shapes = [ops.shape(x)[:-1] for x in (query, value)]
            finite = inputs.finite or [ops.ones(shape, dtype="bool") for shape in shapes]
            return [inputs.query, inputs.value, *finite, *([] if key is None else [inputs.key])]

        inputs = cls(query, value, key, *masks, look=False)
        seen = with_hidden_pairs(look, None, bias)
        inputs.query, inputs.value, of_query, of_sources, *keys = seen
        inputs.finite = (of_query, of_sources)
        inputs.key = keys[0] if keys else None
        return inputs

    def project(self, layer: Any) -> list[Tensor]:
        """Return heads of queries, keys and values, with zeros where a projection overflowed."""
        heads = [layer.project_query(self.query), *layer.project(self.value, self.key)]
        # Only in these dtypes are finite numbers likely to overflow in a projection.
        if self.finite is None or layer.compute_dtype != "float16":
            return heads
        query, key, value = (ops.all(finite_positions(x), axis=-1) for x in heads)
        fits = (query, ops.logical_and(key, value))
        self.finite = tuple(map(ops.logical_and, self.finite, fits))
        query, key = (ops.expand_dims(finite, -1) for finite in fits)
        pairs = zip(heads, (query, key, key), strict=True)
        return [zero_padding(x, finite) for x, finite in pairs]

    def rows(
        self, axes: AttentionAxes, pairs: Tensor | None, is_causal: bool, bias: Tensor | None
    ) -> tuple[Tensor | None, Tensor | None]:
        """Return which queries are unknown, and which real queries see a key, (B, T, ...).

        A query is unknown if it or a source that it sees was not finite. The first result is None
        if no query is unknown, the second if all queries see something. `pairs` is boolean
        (B, ..., N, T, S); a `bias` that broadcasts alike hides pairs where it is −∞.
        """
        query_mask, source_mask = self._masks
        keys = axes.source_mask(source_mask)
        lengths = axes.lengths(self.query)

        def rows_with_output(pairs: Tensor | None) -> Tensor | None:
            rows = query_mask
            mask = combine_masks(keys, pairs)
            if mask is not None:
                rows = combine_masks(rows, axes.rows_with_a_key(mask, lengths, is_causal))
            # No keys, or an unknown length.
            if not all(self.value.shape[axis] for axis in axes.axes):
                has_keys = ops.size(self.value) > 0
                shape = ops.shape(self.query)[:-1]
                rows = combine_masks(rows, ops.full(shape, has_keys, dtype="bool"))
            return rows

        if self.finite is None:
            return None, rows_with_output(pairs)
        queries, sources = map(ops.logical_not, self.finite)
        lost = axes.source_mask(combine_masks(sources, source_mask))

        def rows(pairs: Tensor | None) -> tuple[Tensor, Tensor]:
            # In any head: each head's mask with each example's lost keys would be larger.
            seen = None if pairs is None else ops.any(pairs, axis=-3, keepdims=True)
            hit = axes.rows_with_a_key(combine_masks(lost, seen), lengths, is_causal)
            all_rows = ops.ones_like(queries)
            return ops.logical_or(queries, hit), combine_masks(rows_with_output(pairs), all_rows)

        return rows(pairs) if bias is None else with_hidden_pairs(rows, pairs, bias)

    def anywhere(self, axes: AttentionAxes, rows: Tensor | None) -> Tensor | None:
        """Mark all queries of every example in which any row is marked, (B, T, ...)."""
        if rows is None:
            return None
        chosen = combine_masks(rows, self._masks[0])
        return ops.logical_or(rows, ops.any(chosen, axis=axes.axes, keepdims=True))


def projected(dense: keras.layers.EinsumDense, x: Tensor) -> Tensor:
    """Return `dense(x)` for x (B, T, ...), without Keras' faults in bias axes and empty batches.

    All positions are passed as those of a single example, because TensorFlow would multiply the
    examples one by one. On TensorFlow `keras.ops.add` (3.15.1) treats an operand with one long axis
    as a bias of axis 1 if the lengths match: with T = N, a bias (N, 1) was added along T. So x is
    padded by one position, which is cut off afterwards. If there are no positions,
    `keras.ops.einsum` turns 0 examples into 1; the final reshape undoes that. Keras divides the
    loss of an activity regularizer by the number of examples, before 3.14 it does not; so the loss
    is added here.
    """
    inputs, outputs = dense.equation.replace(",", "->").split("->")[::2]
    count = sum(axis in outputs for axis in inputs)  # of axes of examples and positions
    leading, features = ops.shape(x)[:count], ops.shape(x)[count:]
    positions = (*(1,) * (count - 1), math.prod(leading))
    x = ops.reshape(x, (*positions, *features))
    lengths = () if dense.bias is None else tuple(size for size in dense.bias.shape if size > 1)
    if len(lengths) != 1 or dense.bias.shape[-1] > 1 or x.shape[1] != lengths[0]:
        result = dense(x)
    else:
        result = dense(ops.pad(x, [(0, 0), (0, 1)] + [(0, 0)] * (len(x.shape) - 2)))[:, :-1]
    regularizer = getattr(dense, "example_regularizer", None)
    if regularizer is not None:
        loss = regularizer(result)
        if _DIVIDES_ACTIVITY_LOSS:
            loss = ops.divide_no_nan(loss, ops.cast(leading[0], loss.dtype))
        dense.add_loss(loss)
    return ops.reshape(result, (*leading, *ops.shape(result)[count:]))


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class ProjectionInitializer(keras.initializers.Initializer):
    """Initialize a kernel of more than two axes as the matrix it represents.

    Keras before 3.15 computes the fans of a kernel (features, heads, size) as for a convolution.
    For 4 heads of size 32 on 128 features, its Glorot kernels have a quarter of a dense layer's
    scale, and the products q·k a sixteenth. A softmax then starts as an average, and CoDA's tanh(E)
    near 0. The matrix is (inputs, outputs), of which the first `input_axes` axes are inputs.

    >>> kernel = ProjectionInitializer("glorot_uniform", input_axes=1)((128, 4, 32))
    >>> bool(keras.ops.max(keras.ops.abs(kernel)) > 0.15)  # the bound is √(6 / (128 + 128)) ≈ 0.153
    True
    """

    def __init__(self, initializer: Any, input_axes: int) -> None:
        self.initializer = keras.initializers.get(initializer)
        self.input_axes = input_axes

    def __call__(self, shape: tuple[int, ...], dtype: Any = None) -> Tensor:
        """Return a tensor of `shape`."""
        matrix = (math.prod(shape[: self.input_axes]), math.prod(shape[self.input_axes :]))
        return ops.reshape(self.initializer(matrix, dtype=dtype), shape)

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        initializer = keras.initializers.serialize(self.initializer)
        return {"initializer": initializer, "input_axes": self.input_axes}
