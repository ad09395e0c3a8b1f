"""What an attention is, apart from the layer it stands in, and the names by which attentions are chosen.

A mechanism has one home, a file in `layers`: its options as a `Mechanism`, for the layers over two sequences, and its
multi-head layer, for blocks and models. Each is registered there under the mechanism's name.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

import keras
from keras import ops

from keras_quasiattn.ops.checks import check_choice
from keras_quasiattn.ops.masking import pair_mask

Tensor = Any

# By name: what `DecomposableAttention`, `DotAttention` and `GatedContextQueryAttention` can be told to use, and what
# Transformer blocks, the models made of them, `TextClassifier` and `swap_attention` can.
MECHANISMS: dict[str, type["Mechanism"]] = {}
MULTI_HEAD_LAYERS: dict[str, type[keras.layers.Layer]] = {}


def mechanism(name: str) -> Callable[[Any], Any]:
    """Class decorator: layers over two sequences know the mechanism by this name."""
    return _registered(MECHANISMS, name)


def multi_head_layer(name: str) -> Callable[[Any], Any]:
    """Class decorator: blocks and models know the layer by this name."""
    return _registered(MULTI_HEAD_LAYERS, name)


def _registered(registry: dict[str, Any], name: str) -> Callable[[Any], Any]:
    def register(one: Any) -> Any:
        registry[name] = one
        return one

    return register


@dataclasses.dataclass
class Mechanism:
    """How weights are made of queries and keys; a subclass is a dataclass of its options, which checks them.

    Attributes:
        op: the function of `keras_quasiattn.ops` that computes the attention.
        takes: those of "center_per_query" and "training" that `op` takes.
        compares_by_distance: whether features are subtracted from each other. Dropout before that would be a distance
            between equal words, and both sequences need one projection.
        pair_score_count: how many matrices of weights `pair` gives.
    """

    op: ClassVar[Callable[..., Any]]
    takes: ClassVar[tuple[str, ...]] = ()
    compares_by_distance: ClassVar[bool] = False
    pair_score_count: ClassVar[int] = 2

    @property
    def sees_all_pairs(self) -> bool:
        """Whether a weight depends on other queries, so that masked queries must be left out of the op."""
        return False

    def make_weights(
        self, layer: keras.layers.Layer, shape: tuple[int, ...] = ()
    ) -> dict[str, Any]:
        """What is learned, added to `layer`; `shape` is that of one number a head: () or (N, 1, 1)."""
        return {}

    def arguments(
        self, learned: dict[str, Any], features: int, scale: float, paper_scale: float
    ) -> dict[str, Any]:
        """The options as arguments of `op`; see `attend`."""
        return {**dataclasses.asdict(self), "scale": scale}

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
        training: bool | None = None,
        **options: Any,
    ) -> Any:
        """What every query finds.

        Args:
            query: (..., T, D).
            key: (..., S, D).
            value: (..., S, V).
            mask: boolean, broadcasts to (..., T, S), or None.
            learned: what `make_weights` gave.
            scale: factor of the dot products, where the mechanism has no factors of its own.
            paper_scale: what the factors of its own are in the paper's equation for such a layer.
            center_per_query: means are over a query's own keys, where the mechanism takes any.
            training: whether this is a step of training.
            **options: `is_causal`, `dropout`, `dropout_seed`, `return_scores`, as for every attention in `ops`.

        Returns:
            (..., T, V) or, with `return_scores`, that and the weights (..., T, S) before dropout.
        """
        arguments = self.arguments(learned, query.shape[-1], scale, paper_scale)
        given = {"center_per_query": center_per_query, "training": training}
        further = {name: given[name] for name in self.takes}
        return type(self).op(query, key, value, mask, **arguments, **further, **options)

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
        """Aligns two sequences to each other: what every position of each finds in the other.

        Args:
            a: (B, T, D).
            b: (B, S, D).
            mask_a: boolean (B, T), or None.
            mask_b: boolean (B, S), or None.
            value_a: (B, T, V), what positions of b find.
            value_b: (B, S, V), what positions of a find.
            return_scores: also return the weights.
            **options: `learned`, `scale` and `training`, as for `attend`.

        Returns:
            (B, T, V) and (B, S, V), and `pair_score_count` matrices (B, T, S) where they are asked for.
        """
        of_a = self.attend(
            a, b, value_b, pair_mask(mask_a, mask_b), return_scores=return_scores, **options
        )
        of_b = self.attend(
            b, a, value_a, pair_mask(mask_b, mask_a), return_scores=return_scores, **options
        )
        if not return_scores:
            return of_a, of_b
        return of_a[0], of_b[0], of_a[1], ops.swapaxes(of_b[1], -1, -2)


def make_mechanism(attention: str, attention_options: dict[str, Any] | None) -> Mechanism:
    """The mechanism of this name with these options; a `ValueError` that says what there is."""
    check_choice(attention, tuple(MECHANISMS), "attention")
    known = {field.name for field in dataclasses.fields(MECHANISMS[attention])}
    unknown = sorted(set(attention_options or {}) - known)
    if unknown:
        raise ValueError(
            f"`attention_options` of attention={attention!r} may have {sorted(known) or 'no entries'}. "
            f"Received: {unknown}"
        )
    return MECHANISMS[attention](**(attention_options or {}))
