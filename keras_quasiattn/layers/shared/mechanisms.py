"""Attention mechanisms, independent of the layers that use them, and their registry by name.

Each mechanism is defined in one file in `layers`: a `Mechanism` with its options, for the layers
over two sequences, and a multi-head layer, for blocks and models. Both are registered under the
mechanism's name.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import keras
from keras import ops

from keras_quasiattn.ops.checks import check_choice
from keras_quasiattn.ops.masking import pair_mask
from keras_quasiattn.ops.recording import recording_of

Tensor = Any

# `MECHANISMS` is for `DecomposableAttention`, `DotAttention` and `GatedContextQueryAttention`;
# `MULTI_HEAD_LAYERS` for Transformer blocks and models, `TextClassifier` and `swap_attention`.
MECHANISMS: dict[str, type["Mechanism"]] = {}
MULTI_HEAD_LAYERS: dict[str, type[keras.layers.Layer]] = {}


def mechanism(name: str) -> Callable[[Any], Any]:
    """Class decorator: registers a mechanism for the layers over two sequences."""
    return _registered(MECHANISMS, name)


def multi_head_layer(name: str) -> Callable[[Any], Any]:
    """Class decorator: registers a multi-head layer for blocks and models."""
    return _registered(MULTI_HEAD_LAYERS, name)


def _registered(registry: dict[str, Any], name: str) -> Callable[[Any], Any]:
    def register(one: Any) -> Any:
        registry[name] = one
        return one

    return register


@dataclasses.dataclass
class Mechanism:
    """Computes weights from queries and keys; subclasses are dataclasses of validated options.

    Attributes:
        op: the function of `keras_quasiattn.ops` that computes the attention. It takes `query`,
            `key`, `value`, `mask`, `arguments` and the options of `attend`.
        counts_pairs: whether it counts pairs, so that the op must exclude those of masked queries
            although no weight depends on them.
        needs_one_projection: whether both sequences need the same projection, because features are
            subtracted from each other.
        pair_score_count: number of weight matrices that `pair` returns.
        search_space: for a search of hyperparameters, the values of each option that is worth it.
    """

    op: ClassVar[Callable[..., Any]]
    counts_pairs: ClassVar[bool] = False
    needs_one_projection: ClassVar[bool] = False
    pair_score_count: ClassVar[int] = 2
    search_space: ClassVar[Mapping[str, tuple[Any, ...]]] = {}

    @property
    def sees_all_pairs(self) -> bool:
        """Whether a weight depends on other queries, so that the op must exclude masked queries."""
        return False

    def prepare(self, layer: Any, heads: int = 1) -> None:
        """Called by the constructor of `layer`: adds sublayers, or finds that it has too few heads.

        A mechanism is prepared for one layer only.
        """

    def make_weights(self, layer: Any, features: int, heads: int | None = None) -> dict[str, Any]:
        """Adds the learned weights to `layer` when it is built.

        Args:
            layer: the layer; its `add_score_kernel` initializes as its projections do.
            features: D.
            heads: number of heads N; None in layers over two sequences, which have no axis for it.

        Returns:
            The weights by name; `attend` gets them as `learned`.
        """
        return {}

    def arguments(
        self,
        learned: dict[str, Any],
        *,
        features: int,
        scale: float,
        paper_scale: float,
        center_per_query: bool,
    ) -> dict[str, Any]:
        """Returns the options as arguments of `op`; see `attend`."""
        return {**dataclasses.asdict(self), **learned, "scale": scale}

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        *,
        learned: dict[str, Any],
        scale: float = 1.0,
        paper_scale: float = 1.0,
        center_per_query: bool = False,
        **options: Any,
    ) -> Any:
        """Returns, for every query, the weighted sum of the values.

        Args:
            query: (..., T, D).
            key: (..., S, D).
            value: (..., S, V).
            mask: boolean, broadcasts to (..., T, S), or None.
            learned: what `make_weights` returned.
            scale: factor of the dot products, if the mechanism has no factors of its own.
            paper_scale: value of the mechanism's own factors in the paper's equation for such a
                layer.
            center_per_query: whether means are taken over each query's own keys, if there are any
                means.
            **options: `is_causal`, `dropout`, `dropout_seed`, `return_scores`, `bias`, as for every
                attention in `ops`.

        Returns:
            (..., T, V) or, with `return_scores`, that and the weights (..., T, S) before dropout.
        """
        arguments = self.arguments(
            learned,
            features=query.shape[-1],
            scale=scale,
            paper_scale=paper_scale,
            center_per_query=center_per_query,
        )
        return type(self).op(query, key, value, mask=mask, **arguments, **options)

    def pair(
        self,
        a: Tensor,
        b: Tensor,
        mask_a: Tensor | None,
        mask_b: Tensor | None,
        *,
        value_a: Tensor,
        value_b: Tensor,
        return_scores: bool = False,
        **options: Any,
    ) -> tuple[Tensor, ...]:
        """Aligns two sequences to each other: every position of each attends to the other sequence.

        Args:
            a: (B, T, D).
            b: (B, S, D).
            mask_a: boolean (B, T), or None.
            mask_b: boolean (B, S), or None.
            value_a: (B, T, V), what positions of b attend to.
            value_b: (B, S, V), what positions of a attend to.
            return_scores: also return the weights.
            **options: `learned` and `scale`, as for `attend`.

        Returns:
            (B, T, V) and (B, S, V), and `pair_score_count` matrices (B, T, S) if they are
            requested.
        """
        options["return_scores"] = return_scores
        with recording_of("first"):
            of_a = self.attend(a, b, value_b, pair_mask(mask_a, mask_b), **options)
        with recording_of("second"):
            of_b = self.attend(b, a, value_a, pair_mask(mask_b, mask_a), **options)
        if not return_scores:
            return of_a, of_b
        # (B, T, V), (B, S, V) and two matrices (B, T, S)
        return of_a[0], of_b[0], of_a[1], ops.swapaxes(of_b[1], -1, -2)

    def operations(
        self, queries: int, keys: int, features: int, value_features: int, heads: int = 1
    ) -> int:
        """Counts the operations that scores, weights and weighted sums take.

        A multiplication or a difference and the addition after it count as one. Functions of single
        weights, such as exp, tanh and divisions, are left out, and so are masks, means and
        projections. Here: D for each q·k, and V for adding each weighted value.

        Args:
            queries: T.
            keys: S, the number of keys that each query attends to.
            features: D, for each head.
            value_features: V, for each head.
            heads: N.
        """
        return heads * queries * keys * (features + value_features)


def make_mechanism(
    layer: Any, attention: str, attention_options: dict[str, Any] | None
) -> Mechanism:
    """Creates the named mechanism for a layer over two sequences.

    A `ValueError` for unknown names or options lists the known.
    """
    check_choice(attention, tuple(MECHANISMS), "attention")
    known = {field.name for field in dataclasses.fields(MECHANISMS[attention])}
    unknown = sorted(set(attention_options or {}) - known)
    if unknown:
        accepted = f"only {sorted(known)} as" if known else "no"
        raise ValueError(
            f"attention={attention!r} accepts {accepted} `attention_options`. Received: {unknown}"
        )
    made = MECHANISMS[attention](**(attention_options or {}))
    made.prepare(layer)
    return made
