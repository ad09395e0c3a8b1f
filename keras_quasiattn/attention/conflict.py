"""Conflict attends to what differs; softmax alignment attends to what matches."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import keras
from keras import ops

from keras_quasiattn.attention.base import Attention, register_attention
from keras_quasiattn.attention.multi_head import MultiHeadQuasiAttention
from keras_quasiattn.attention.softmax import attend
from keras_quasiattn.core.arguments import check_positive_integer
from keras_quasiattn.core.backend import tanh
from keras_quasiattn.core.l1 import pairwise_l1
from keras_quasiattn.core.masks import Mask, as_boolean_mask, prepare_cross_attention
from keras_quasiattn.core.tensors import (
    as_dtype,
    check_choice,
    checked_inputs,
    compute_dtype,
    dot_products,
    project,
)

Tensor = Any

DIFFERENCES = ("absolute", "signed", "squared")
DEFAULT_DIFFERENCE = "absolute"


def conflict_attention(
    u: Tensor,
    v: Tensor,
    score_kernel: Tensor,
    values: Tensor,
    mask_v: Tensor | None = None,
    difference: str = DEFAULT_DIFFERENCE,
    return_scores: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Sum the values of one sequence for every position of the other, weighted by their contrast.

    a[i, j] = W_s · |u_i − v_j|;  w = softmax(a) over the positions that `mask_v` shows;
    output = w · values

    The paper prints a[i, j] = W_s · (u_i − v_j), which is `difference="signed"`. That form is
    degenerate: the softmax cancels W_s · u_i, so all positions of u get the weights softmax(−W_s ·
    v), and u has no gradient. Its scores cost O(S); the others make no tensor larger than (T, S).

    A masked position has weight exactly 0 and its content has no effect; if every position is
    masked, the output is all zeros. Weights are computed in float32 for 16-bit inputs.

    Args:
        u: (..., T, D), already projected.
        v: (..., S, D), already projected.
        score_kernel: (D,), W_s, of any sign.
        values: (..., S, V).
        mask_v: boolean (or 0/1 integer) (..., S), True = real. Defaults to None.
        difference: "absolute" (the default), "signed" (as the paper prints it) or "squared".
        return_scores: also return w. Defaults to False.

    Returns:
        output (..., T, V) in the dtype of `values`, or (output, w) with w (..., T, S).

    Raises:
        ValueError: an unknown difference, a float mask, a rank below 2, or lengths or feature
            counts that do not match.

    Example:
    >>> u, v = np.array([[[-1.0], [1.0]]]), np.array([[[-1.0], [1.0]]])
    >>> for difference in ("absolute", "signed"):
    ...     _, weights = conflict_attention(
    ...         u, v, np.array([9.0]), v, None, difference, return_scores=True
    ...     )
    ...     print(np.asarray(weights).round(2).tolist())
    [[[0.0, 1.0], [1.0, 0.0]]]
    [[[1.0, 0.0], [1.0, 0.0]]]

    Source: Mitra 2019, "Conflict as an Inverse of Attention in Sequence Relationship", eqs. 7–9.
    """
    u, v, values, mask = prepare_cross_attention(u, v, values, mask_v)
    score_kernel = ops.convert_to_tensor(score_kernel)
    if tuple(score_kernel.shape) != (u.shape[-1],):
        raise ValueError(
            f"`score_kernel` must have shape ({u.shape[-1]},), one factor per feature of `u`. "
            f"Received score_kernel.shape={tuple(score_kernel.shape)}."
        )
    scores = _scores(u, v, score_kernel, difference)
    result = attend(scores, values, mask, return_scores=return_scores)
    if return_scores:
        return tuple(_broadcast_rows(x, u, difference) for x in result)
    return _broadcast_rows(result, u, difference)


def multi_head_conflict_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_kernels: Tensor,
    mask: Tensor | None = None,
    *,
    scale: float = 1.0,
    difference: str = DEFAULT_DIFFERENCE,
    is_causal: bool = False,
    dropout: float = 0.0,
    dropout_seed: Tensor | None = None,
    bias: Tensor | None = None,
    return_scores: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Attend with heads of which some score by dot product and the others by conflict.

    The first N − C heads are as in `ops.softmax_attention`. The last C heads have the scores
    a[i, j] = W_s · |tanh(query_i) − tanh(key_j)|, or another `difference` of
    `ops.conflict_attention`. A bias is added to the scores of all heads.

    Args:
        query: (..., N, T, D).
        key: (..., N, S, D).
        value: (..., N, S, V).
        score_kernels: (D, C), W_s of each conflict head; C ≤ N. With (D,) there is one conflict
            head, and no tensor has an axis N.
        mask: boolean (or 0/1 integer) that broadcasts to (..., N, T, S); True = attend.
            Defaults to None.
        scale: factor of the dot products, usually 1/√D; W_s scales the conflict heads instead.
            Defaults to 1.
        difference: as in `ops.conflict_attention`.
        is_causal: query i attends to keys 0 … i only. Defaults to False.
        dropout: fraction of the weights set to 0; the rest are divided by 1 − `dropout`. Defaults
            to 0.
        dropout_seed: two integers from `keras.random.SeedGenerator.next()`; needed for dropout.
            Defaults to None.
        bias: floats that broadcast to (..., N, T, S), added to the scores; None = no bias.
            −∞ hides the pair, as the mask does. What it holds at a masked pair does not matter.
            Defaults to None.
        return_scores: also return the weights, before dropout. Defaults to False.

    Returns:
        output (..., N, T, V) in the dtype of `value`, or (output, weights) with weights
        (..., N, T, S).

    Raises:
        ValueError: an unknown difference, a float mask, a bias without floats, sizes that do not
            match, or dropout without a seed.

    Example:
    >>> heads = np.ones((2, 3, 5, 8), "float32")
    >>> tuple(
    ...     multi_head_conflict_attention(heads, heads, heads, np.ones((8, 1), "float32")).shape
    ... )
    (2, 3, 5, 8)

    Source: Mitra 2019, §6.1.
    """
    query, key, value = checked_inputs(query, key, value, dropout, dropout_seed)
    score_kernels = ops.convert_to_tensor(score_kernels)
    scores = _scores_of_heads(query, key, score_kernels, scale, difference)
    return attend(
        scores,
        value,
        as_boolean_mask(mask, "mask", scores.shape),
        is_causal=is_causal,
        dropout=dropout,
        dropout_seed=dropout_seed,
        bias=bias,
        return_scores=return_scores,
    )


def _scores_of_heads(
    query: Tensor, key: Tensor, score_kernels: Tensor, scale: float, difference: str
) -> Tensor:
    """Return the scores of all heads (..., N, T, S), or those of a single W_s, (..., T, S)."""
    dtype = compute_dtype(query, key)

    def conflict(query: Tensor, key: Tensor, score_kernel: Tensor) -> Tensor:
        u, v = (tanh(ops.cast(x, dtype)) for x in (query, key))
        return _broadcast_rows(_scores(u, v, score_kernel, difference), u, difference)

    features, shape = query.shape[-1], tuple(score_kernels.shape)
    if shape == (features,):
        return conflict(query, key, score_kernels)
    heads = query.shape[-3] if len(query.shape) > 2 else 0
    if len(shape) != 2 or shape[0] != features or shape[1] > heads:
        raise ValueError(
            f"`score_kernels` must have shape ({features}, C), with C at most {heads}, the number "
            f"of heads. Received score_kernels.shape={shape}."
        )
    products = heads - shape[1]
    scores = []
    if products:  # a product of no heads ends ONNX Runtime
        scores.append(dot_products(query[..., :products, :, :], key[..., :products, :, :], scale))
    # One score matrix (..., 1, T, S) per conflict head.
    for index, head in enumerate(range(products, heads)):
        u, v = (x[..., head : head + 1, :, :] for x in (query, key))
        scores.append(conflict(u, v, score_kernels[:, index]))
    return ops.concatenate(scores, axis=-3)


def _scores(u: Tensor, v: Tensor, score_kernel: Tensor, difference: str) -> Tensor:
    """Return W_s · difference, (..., T, S) or (..., 1, S), without terms constant in a row."""
    check_choice(difference, DIFFERENCES, "difference")
    dtype = compute_dtype(u, v)
    u, v, score_kernel = ops.cast(u, dtype), ops.cast(v, dtype), as_dtype(score_kernel, dtype)
    if difference == "absolute":
        return pairwise_l1(u, v, score_kernel)
    if difference == "signed":
        return -ops.expand_dims(project(v, score_kernel), -2)
    # W_s · (u − v)² = W_s · u² − 2·W_s·u·v + W_s · v²; the first term is constant in a row.
    squares = ops.expand_dims(project(ops.square(v), score_kernel), -2)  # (..., 1, S)
    return squares - 2 * dot_products(u * score_kernel, v)


def _broadcast_rows(x: Tensor, u: Tensor, difference: str) -> Tensor:
    """Return `x` as (..., T, L): broadcast a "signed" result (..., 1, L) to `u` (..., T, D)."""
    if difference != "signed":
        return x
    # A sum, because the leading axes may broadcast and their lengths be unknown or symbolic.
    return x + ops.zeros_like(u[..., :1], dtype=x.dtype)


@dataclasses.dataclass
class Conflict(Attention):
    """Some heads score by dot products and the others, or a single head, by differences."""

    needs_one_projection: ClassVar[bool] = True
    search_space: ClassVar[Mapping[str, tuple[Any, ...]]] = {"difference": DIFFERENCES}

    conflict_heads: int = 1
    difference: str = DEFAULT_DIFFERENCE

    def __post_init__(self) -> None:
        check_positive_integer(self.conflict_heads, "conflict_heads")
        check_choice(self.difference, DIFFERENCES, "difference")

    def prepare(self, layer: Any, heads: int = 1) -> None:
        """Check that there are as many heads as conflict heads."""
        if self.conflict_heads > heads:
            raise ValueError(
                "`conflict_heads` must be at most `num_heads`, which is 1 in a layer without heads."
                f" Received: conflict_heads={self.conflict_heads}, num_heads={heads}"
            )

    def make_weights(self, layer: Any, features: int, heads: int | None = None) -> dict[str, Any]:
        """Add W_s to `layer`, one for each conflict head."""
        shape = (features,) if heads is None else (features, self.conflict_heads)
        layer.score_kernels = layer.add_score_kernel(shape, "score_kernels")
        return {"score_kernels": layer.score_kernels}

    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Mask, **options: Any) -> Any:
        """Score by dot products and by conflict, and attend."""
        learned = options.pop("learned")
        scale = options.pop("scale", 1.0)
        scores = _scores_of_heads(query, key, learned["score_kernels"], scale, self.difference)
        return attend(scores, value, mask, **options)

    def operations(
        self, queries: int, keys: int, features: int, value_features: int, heads: int = 1
    ) -> int:
        """Count 2·D per pair of a conflict head: a difference per feature, and W_s times it.

        "squared" also takes 2·D per key and D per query, "signed" only D per key.
        """
        scores = {
            "absolute": queries * keys * 2 * features,
            "squared": (queries * keys + 2 * keys + queries) * features,
            "signed": keys * features,
        }
        sums = queries * keys * value_features
        others = heads - self.conflict_heads
        products = super().operations(queries, keys, features, value_features, others)
        return products + self.conflict_heads * (scores[self.difference] + sums)


@register_attention("conflict")
@keras.saving.register_keras_serializable(package="keras_quasiattn")
class MultiHeadConflict(MultiHeadQuasiAttention):
    """`keras.layers.MultiHeadAttention` with conflict heads and dot-product heads.

    Dot-product heads: weights = softmax(q·kᵀ/√H). Conflict heads, each with its own kernel W_s:
    weights = softmax(a), a[i, j] = W_s·|tanh(q_i) − tanh(k_j)|. output = (weights·v)·W_o

    The conflict heads come last. All else is as in `layers.MultiHeadSoftmax`.

    Args:
        conflict_heads: how many of the heads are conflict heads, at least 1. Defaults to 1.
        difference: as in `layers.ConflictAttention`. With "signed", each conflict head gives every
            query the same weights.
        **arguments: as for `layers.MultiHeadQuasiAttention`.

    Returns:
        (B, T, features); with `return_attention_scores` also the weights (B, N, T, S).

    Raises:
        ValueError: more conflict heads than heads, or an unknown difference.

    Example:
    >>> x = np.ones((2, 5, 16), "float32")
    >>> tuple(MultiHeadConflict(num_heads=2, key_dim=8, conflict_heads=1)(x, x).shape)
    (2, 5, 16)

    Source: Mitra 2019, "Conflict as an Inverse of Attention in Sequence Relationship", §6.1 and
    eqs. 7–9.
    """

    options_class = Conflict
