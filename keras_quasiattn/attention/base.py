"""The interface of attentions, their registry by name, and weighted sums from a matrix of scores.

An attention is one file in this package, or anywhere else: a dataclass of its options that computes
the weights (`Attention` or `ScoreAttention`), and a multi-head layer, registered under a name.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal, cast

import keras
from keras import ops

from keras_quasiattn.attention import by_rows
from keras_quasiattn.core import recording
from keras_quasiattn.core.arguments import check, check_options, is_number
from keras_quasiattn.core.backend import runs_op_by_op
from keras_quasiattn.core.masks import Mask, as_boolean_mask, causal_mask, combine_masks, pair_mask
from keras_quasiattn.core.randomness import drop_weights
from keras_quasiattn.core.score_bias import (
    add_score_bias,
    as_score_bias,
    check_not_low,
    with_hidden_pairs,
)
from keras_quasiattn.core.tensors import (
    check_choice,
    checked_inputs,
    dot_products,
    in_training_call,
    weighted_sum,
)

Tensor = Any
# (scores (..., T, S), mask that broadcasts to them or None) → weights (..., T, S), 0 where the mask
# is False. The scores are float32 or float64 and may hold any value at masked pairs.
Weigh = Callable[[Tensor, Tensor | None], Tensor]
Factor = float | Literal["learned"]

# The multi-head layer of each attention, by name.
ATTENTIONS: dict[str, type[Any]] = {}


def register_attention(name: str) -> Callable[[Any], Any]:
    """Register a multi-head layer, which models, tasks, searches and reports then find by `name`.

    This is a class decorator. Another package adds an attention by declaring its module as an entry
    point of the group `keras_quasiattn.attentions`; importing `keras_quasiattn` then imports the
    module.
    """

    def register(layer: Any) -> Any:
        ATTENTIONS[name] = layer
        return layer

    return register


@dataclasses.dataclass
class Attention:
    """Base class of attentions: dataclasses that hold the options and compute the result.

    They check their options in `__post_init__` and override `attend`. If the weights follow from
    one matrix of scores, subclass `ScoreAttention`, which needs less code.

    Attributes:
        rows_are_independent: whether the weights of a query depend on no other query. `attend` may
            then be called for one tile of queries at a time.
        needs_one_projection: whether both sequences need the same projection, because features are
            subtracted from each other.
        pair_score_count: number of weight matrices that `pair` returns.
        pair_has_distance: whether `pair` also takes `distance_a` and `distance_b`, the features
            that a distance between the sequences compares.
        score_parts: number of equal parts into which the features of a head are split, each with
            its own scores; a rotary embedding rotates each part separately.
        cross_attention_options: options used when queries arrive one after another and all keys are
            known; with them queries do not affect each other.
        products_per_pair: number of products or differences of vectors for each pair.
        further_per_pair: number of further operations for each pair; see `operations`.
        search_space: the values that a hyperparameter search tries for each option.
        export_note: what an export costs if the attention is slower there than in this process.
    """

    rows_are_independent: ClassVar[bool] = True
    needs_one_projection: ClassVar[bool] = False
    pair_score_count: ClassVar[int] = 2
    pair_has_distance: ClassVar[bool] = False
    score_parts: ClassVar[int] = 1
    products_per_pair: ClassVar[int] = 1
    further_per_pair: ClassVar[int] = 0
    cross_attention_options: ClassVar[Mapping[str, Any]] = {}
    search_space: ClassVar[Mapping[str, tuple[Any, ...]]] = {}
    export_note: ClassVar[str] = ""

    @property
    def sees_all_pairs(self) -> bool:
        """Whether a weight depends on other queries, so that masked queries must be hidden."""
        return False

    def prepare(self, layer: Any, heads: int = 1) -> None:
        """Add sublayers to `layer`, or reject its number of heads; its constructor calls this."""

    def make_weights(self, layer: Any, features: int, heads: int | None = None) -> dict[str, Any]:
        """Add the learned weights to `layer`, which calls this when it is built.

        Args:
            layer: the layer; its `add_score_kernel` uses the initializer of the projections.
            features: D.
            heads: number of heads N; None in layers over two sequences, which have no head axis.

        Returns:
            The weights and other constants by name, which `attend` receives as `learned`.
        """
        return {}

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Mask,
        *,
        learned: dict[str, Any],
        scale: float = 1.0,
        **options: Any,
    ) -> Any:
        """Return the weighted sum of the values for every query.

        Args:
            query: (..., T, D).
            key: (..., S, D).
            value: (..., S, V).
            mask: boolean, broadcasts to (..., T, S), or None.
            learned: what `make_weights` returned.
            scale: factor of the dot products, unless the attention defines its own. Defaults to 1.
            **options: `is_causal`, `dropout`, `dropout_seed`, `return_scores` and `bias`, as for
                every attention in `ops`.

        Returns:
            (..., T, V) or, with `return_scores`, that and the weights (..., T, S) before dropout.
        """
        raise NotImplementedError

    def pair(
        self,
        a: Tensor,
        b: Tensor,
        mask_a: Mask,
        mask_b: Mask,
        *,
        value_a: Tensor,
        value_b: Tensor,
        return_scores: bool = False,
        **options: Any,
    ) -> tuple[Tensor, ...]:
        """Let every position of each of two sequences attend to the other sequence.

        Args:
            a: (B, T, D).
            b: (B, S, D).
            mask_a: boolean (B, T), or None.
            mask_b: boolean (B, S), or None.
            value_a: (B, T, V), the values of a, which positions of b attend to.
            value_b: (B, S, V), the values of b, which positions of a attend to.
            return_scores: also return the weights.
            **options: `learned` and `scale`, as for `attend`.

        Returns:
            (B, T, V) and (B, S, V), and `pair_score_count` matrices (B, T, S) if requested.
        """
        options["return_scores"] = return_scores
        with recording.recording_of("first"):
            of_a = self.attend(a, b, value_b, pair_mask(mask_a, mask_b), **options)
        with recording.recording_of("second"):
            of_b = self.attend(b, a, value_a, pair_mask(mask_b, mask_a), **options)
        if not return_scores:
            return of_a, of_b
        # (B, T, V), (B, S, V) and two matrices (B, T, S)
        return of_a[0], of_b[0], of_a[1], ops.swapaxes(of_b[1], -1, -2)

    def operations(
        self, queries: int, keys: int, features: int, value_features: int, heads: int = 1
    ) -> int:
        """Count the operations of scores, weights and weighted sums.

        A pair costs D for each of its `products_per_pair`, V to add its value, and
        `further_per_pair`. A multiplication or a difference counts as one operation together with
        the addition after it. Functions of single weights, such as exp, tanh and divisions, are
        left out, and so are masks, means and projections.

        Args:
            queries: T.
            keys: S, the number of keys that each query attends to.
            features: D, for each head.
            value_features: V, for each head.
            heads: N. Defaults to 1.
        """
        of_pair = self.products_per_pair * features + value_features + self.further_per_pair
        return heads * queries * keys * of_pair


class ShowsOptions:
    """Mixin, listed first, for layers that show an attention's options as read-only attributes."""

    def show_options(self, options: Any) -> None:
        """Set `self.options`, and an attribute for each of its fields."""
        for name, value in dataclasses.asdict(options).items():
            setattr(self, name, value)
        self.options = options

    def __setattr__(self, name: str, value: Any) -> None:
        options = self.__dict__.get("options")
        if options is not None and any(name == own.name for own in dataclasses.fields(options)):
            raise AttributeError(
                f"`{name}` cannot be set after construction. Make a new {type(self).__name__} from "
                f"`get_config()` with another value. Received: {name}={value!r}"
            )
        super().__setattr__(name, value)


@dataclasses.dataclass
class ScoreAttention(Attention):
    """Base class of attentions whose weights follow from the scores, scale · query · keyᵀ + bias.

    Attributes:
        label: name of the weights in recordings and figures. Defaults to "weights".
        low_scores_delete: whether a low score deletes a key. If not, a bias that looks like a mask
            for a softmax is an error.
    """

    label: ClassVar[str] = "weights"
    low_scores_delete: ClassVar[bool] = True

    def weights(self, scores: Tensor, mask: Mask, learned: dict[str, Any]) -> Tensor:
        """Return the weights (..., T, S), 0 where the mask is False.

        Args:
            scores: (..., T, S), float32 or float64, with any values at masked pairs.
            mask: boolean, broadcasts to (..., T, S), or None.
            learned: what `make_weights` returned.
        """
        raise NotImplementedError

    def compute(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None = None,
        *,
        learned: dict[str, Any] | None = None,
        **options: Any,
    ) -> Any:
        """Attend as the functions in `ops` do; see `dot_product_attention`."""

        def weigh(scores: Tensor, mask: Mask) -> Tensor:
            return self.weights(scores, mask, learned or {})

        options["low_scores_delete"] = self.low_scores_delete
        return dot_product_attention(query, key, value, mask, weigh, self.label, **options)

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Mask,
        *,
        learned: dict[str, Any],
        scale: float = 1.0,
        **options: Any,
    ) -> Any:
        """Compute the weights from the scores, and sum the values; see `Attention.attend`."""
        return weighted_values(
            dot_products(query, key, scale),
            value,
            mask,
            lambda scores, mask: self.weights(scores, mask, learned),
            self.label,
            low_scores_delete=self.low_scores_delete,
            **options,
        )


def make_attention(
    layer: Any, attention: str, options: dict[str, Any] | None, *, is_cross: bool = False
) -> Attention:
    """Create the named attention for a layer over two sequences.

    `is_cross` means that queries must not affect each other.

    Raises:
        ValueError: an unknown name or option; the message lists what is known.
    """
    check_choice(attention, sorted(ATTENTIONS), "attention")
    kind = ATTENTIONS[attention].options_class
    known = {field.name for field in dataclasses.fields(kind)}
    given = check_options(options, "attention_options")
    unknown = sorted(set(given) - known)
    if unknown:
        accepted = f"only {sorted(known)} as" if known else "no"
        raise ValueError(
            f"attention={attention!r} accepts {accepted} `attention_options`. Received: {unknown}"
        )
    made: Attention = kind(**{**given, **(kind.cross_attention_options if is_cross else {})})
    made.prepare(layer)
    return made


def for_any_length(
    attend: Callable[..., Any], query: Tensor, key: Tensor, *, return_scores: bool
) -> Callable[..., Any]:
    """Return `attend`, or a version that works on tiles of queries if the matrix may be large.

    Returned scores and recordings need the whole matrix. If sizes are unknown, a training call
    decides when it runs.
    """
    sizes = (*query.shape[:-1], key.shape[-2])
    if return_scores or recording.active.get() is not None:
        return attend
    if None in sizes:
        # XLA would compile both branches, and an inference graph must also run in other runtimes.
        may_be_large = in_training_call() and runs_op_by_op()
    else:  # JAX may trace with names instead of numbers
        pairs = math.prod(sizes) if all(isinstance(n, int) for n in sizes) else 0
        # The limit is higher on an accelerator, which takes time to look for.
        may_be_large = pairs > by_rows.LARGE and pairs > by_rows.large(query)
    return functools.partial(by_rows.attend_by_rows, attend) if may_be_large else attend


def dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    weigh: Weigh,
    label: str,
    *,
    scale: float = 1.0,
    dropout: float = 0.0,
    dropout_seed: Tensor | None = None,
    **options: Any,
) -> Tensor | tuple[Tensor, Tensor]:
    """Attend with weights that `weigh` computes from scale · query · keyᵀ + bias.

    The mask may hold 0 and 1. Integer queries, keys and values become floats. `label` names the
    weights in a recording. A float mask, a wrong bias, sizes that do not match and dropout
    without a seed are a `ValueError`. Options and results are as for `weighted_values`.
    """
    query, key, value = checked_inputs(query, key, value, dropout, dropout_seed)
    scores = dot_products(query, key, scale)  # (..., T, S)
    mask = as_boolean_mask(mask, "mask", scores.shape)
    options |= {"dropout": dropout, "dropout_seed": dropout_seed}
    return weighted_values(scores, value, mask, weigh, label, **options)


def weighted_values(
    scores: Tensor,
    value: Tensor,
    mask: Tensor | None,
    weigh: Weigh,
    label: str,
    *,
    name: str = "weights",
    is_causal: bool = False,
    dropout: float = 0.0,
    dropout_seed: Tensor | None = None,
    bias: Tensor | None = None,
    low_scores_delete: bool = True,
    return_scores: bool = False,
    first_row: Any = 0,
) -> Tensor | tuple[Tensor, Tensor]:
    """Sum `value` with weights that `weigh` computes from scores (..., T, S) + bias.

    An active recording stores the weights under `name`. `first_row` is the position of the first
    query, which dropout depends on. Unless `low_scores_delete`, a low bias other than −∞ is an
    error. Return (..., T, V) in the dtype of `value` and, if asked for, the weights before dropout.
    """
    if is_causal:
        mask = combine_masks(mask, causal_mask(*ops.shape(scores)[-2:]))

    def weights_of(mask: Tensor | None) -> Tensor:
        biased = scores if bias is None else add_score_bias(scores, bias, mask)
        weights = weigh(biased, mask)  # (..., T, S)
        if recording.active.get() is not None:
            recording.record(name, weights, mask, label)
            weights = recording.edited(weights, mask)
        return weights

    if bias is None:
        weights = weights_of(mask)
    else:
        bias = as_score_bias(bias, scores.shape)
        if not low_scores_delete:
            check_not_low(bias, mask)
        weights = with_hidden_pairs(weights_of, mask, bias)
    kept = drop_weights(weights, dropout, dropout_seed, first_row) if dropout else weights
    output = weighted_sum("...ts,...sv->...tv", kept, value)
    return (output, ops.cast(weights, value.dtype)) if return_scores else output


def check_factor(value: Factor, name: str) -> Factor:
    """Return `value`; raise a `ValueError` unless it is a finite number ≥ 0 or "learned"."""
    if isinstance(value, str) and value == "learned":
        return "learned"
    fits = is_number(value) and 0 <= cast(float, value) < math.inf
    return float(check(fits, value, name, "a finite number ≥ 0, or 'learned'"))


def factor_weights(
    layer: keras.layers.Layer, shape: tuple[int, ...], **values: Factor
) -> dict[str, Any]:
    """Add a float32 weight ≥ 0 of `shape`, initially 1, for each value that is "learned"."""
    names = [name for name, value in values.items() if value == "learned"]
    return {
        name: layer.add_weight(
            shape, "ones", constraint=keras.constraints.NonNeg(), autocast=False, name=name
        )
        for name in names
    }


def factor(value: Factor, weight: Any | None, scale: Any) -> Any:
    """Return `scale` times the number, or times the weight if the factor is learned."""
    return scale * cast(float, value) if weight is None else scale * weight
