"""Context-guided quasi-attention: a softmax plus a gated term that may add or subtract."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import keras
from keras import ops

from keras_quasiattn.attention.base import ScoreAttention, register_attention
from keras_quasiattn.attention.multi_head import MultiHeadQuasiAttention
from keras_quasiattn.core.arguments import check_number
from keras_quasiattn.core.masks import Mask, masked_softmax, zero_masked
from keras_quasiattn.core.tensors import (
    as_dtype,
    check_features,
    check_lengths,
    check_per_position,
    dot_products,
    per_position,
    project,
)

Tensor = Any


def context_guided_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    query_context: Tensor,
    key_context: Tensor,
    query_gate: Tensor,
    key_gate: Tensor,
    alpha: float = 1.0,
    scale: float = 1.0,
    **options: Any,
) -> Tensor | tuple[Tensor, Tensor]:
    """Add quasi-attention, whose weights are positive or negative, to softmax attention.

    W = softmax(scale · query · keyᵀ + bias) + λ · α · sigmoid(scale · C_Q · C_Kᵀ);
    λ = 1 − λ_Q − λ_K, for each pair;  output = W · value

    λ is between −1 and 1, so with α = 1 a weight is between −1 and 2. Masks, precision and
    errors are as in `ops.softmax_attention`.

    Args:
        query: (..., T, D).
        key: (..., S, D).
        value: (..., S, V).
        mask: boolean (or 0/1 integer) that broadcasts to (..., T, S); True = attend.
            Defaults to None.
        query_context: C_Q, (..., T, C).
        key_context: C_K, (..., S, C).
        query_gate: λ_Q, numbers in [0, 1], (..., T).
        key_gate: λ_K, numbers in [0, 1], (..., S).
        alpha: α, the size of the quasi-attention. Defaults to 1.
        scale: factor of both dot products, usually 1/√D. Defaults to 1.
        **options: as for `ops.softmax_attention`, from `is_causal` on.

    Returns:
        output (..., T, V) in the dtype of `value`, or (output, W) with W (..., T, S).

    Raises:
        ValueError: sizes that do not match, or a finite bias below −1e4, which does not delete a
            key (not checked in graphs).

    Example:
    >>> x = np.zeros((2, 1))
    >>> context = {"query_context": x, "key_context": x}
    >>> gates = {"query_gate": np.array([0.5, 1.0]), "key_gate": np.array([0.5, 1.0])}
    >>> _, weights = context_guided_attention(x, x, x, **context, **gates, return_scores=True)
    >>> np.asarray(weights).tolist()
    [[0.5, 0.25], [0.25, 0.0]]

    Source: Wu & Ong 2021, "Context-Guided BERT for Targeted Aspect-Based Sentiment Analysis",
    quasi-attention (QACG-BERT).
    """
    sides = {"query_context": query_context, "key_context": key_context}
    sides |= {"query_gate": query_gate, "key_gate": key_gate}
    learned = {name: ops.convert_to_tensor(one) for name, one in sides.items()}
    query, key = ops.convert_to_tensor(query), ops.convert_to_tensor(key)
    check_features(query, key, "query", "key")
    contexts = learned["query_context"], learned["key_context"]
    check_features(*contexts, "query_context", "key_context")
    for name, x in (("query", query), ("key", key)):
        check_lengths(x, learned[f"{name}_context"], name, f"{name}_context")
        check_per_position(learned[f"{name}_gate"], x, f"{name}_gate", name)
    learned["scale"] = scale
    compute = ContextGuided(alpha).compute
    return compute(query, key, value, mask, learned=learned, scale=scale, **options)


@dataclasses.dataclass
class ContextGuided(ScoreAttention):
    """Weights are the softmax of dot products plus a gated term that may be negative."""

    label = "context-guided weights"
    low_scores_delete: ClassVar[bool] = False
    products_per_pair: ClassVar[int] = 2  # q·k and C_Q·C_K
    further_per_pair: ClassVar[int] = 2  # for the gate and its product
    search_space: ClassVar[Mapping[str, tuple[Any, ...]]] = {"alpha": (0.5, 1.0)}

    alpha: float = 1.0

    def __post_init__(self) -> None:
        self.alpha = check_number(self.alpha, "alpha")

    def make_weights(self, layer: Any, features: int, heads: int | None = None) -> dict[str, Any]:
        """Add Z_Q and Z_K, which the heads share, and u_Q and u_K for each head to `layer`."""
        of_heads = () if heads is None else (heads,)
        shapes = {"context": (features, features), "gate": (features, *of_heads)}
        return {
            f"{side}_{kind}": layer.add_score_kernel(shape, f"{side}_{kind}_kernel")
            for kind, shape in shapes.items()
            for side in ("query", "key")
        }

    def attend(self, query: Tensor, key: Tensor, *others: Any, learned: Any, **options: Any) -> Any:
        """Compute contexts and gates of queries and keys, and attend."""
        sides: dict[str, Any] = {"scale": options.get("scale", 1.0)}
        for side, x in (("query", query), ("key", key)):
            kernel = ops.convert_to_tensor(learned[f"{side}_context"])
            sides[f"{side}_context"] = project(ops.cast(x, kernel.dtype), kernel)
            sides[f"{side}_gate"] = ops.sigmoid(per_position(x, learned[f"{side}_gate"]))
        return super().attend(query, key, *others, learned=sides, **options)

    def weights(self, scores: Tensor, mask: Mask, learned: dict[str, Any]) -> Tensor:
        """Return the softmax of each row plus the gated term."""
        query, key = learned["query_context"], learned["key_context"]
        quasi = ops.sigmoid(as_dtype(dot_products(query, key, learned["scale"]), scores.dtype))
        of_query, of_key = (as_dtype(learned[f"{x}_gate"], scores.dtype) for x in ("query", "key"))
        gate = 1 - (ops.expand_dims(of_query, -1) + ops.expand_dims(of_key, -2))
        quasi = self.alpha * gate * quasi
        return masked_softmax(scores, mask) + zero_masked(quasi, mask)


@register_attention("context_guided")
@keras.saving.register_keras_serializable(package="keras_quasiattn")
class MultiHeadContextGuided(MultiHeadQuasiAttention):
    """`keras.layers.MultiHeadAttention` plus quasi-attention, which adds or subtracts values.

    C_Q = q·Z_Q;  C_K = k·Z_K;  λ = 1 − sigmoid(q·u_Q) − sigmoid(k·u_K), for each pair;
    weights = softmax(q·kᵀ/√H) + λ·α·sigmoid(C_Q·C_Kᵀ/√H) over the visible keys;
    output = (weights·v)·W_o

    With α = 1 a weight is between −1 and 2. At initialization λ is near 0 and the layer close to a
    softmax. In the paper the contexts C come from an embedding of the context (the target and
    aspect of a text); this layer computes them from queries and keys instead. All else is as in
    `layers.MultiHeadSoftmax`, but a negative `attention_bias` does not delete a key; −∞ hides the
    pair, and a finite bias below −1e4 is an error outside graphs.

    Args:
        alpha: α, the size of the quasi-attention. Defaults to 1.0.
        **arguments: as for `layers.MultiHeadQuasiAttention`.

    Returns:
        (B, T, features); with `return_attention_scores` also the weights (B, N, T, S).

    Raises:
        ValueError: an α that is not a number.

    Example:
    >>> x = np.ones((2, 5, 16), "float32")
    >>> tuple(MultiHeadContextGuided(num_heads=2, key_dim=8)(x, x).shape)
    (2, 5, 16)

    Source: Wu & Ong 2021, "Context-Guided BERT for Targeted Aspect-Based Sentiment Analysis",
    quasi-attention (QACG-BERT).
    """

    options_class = ContextGuided
