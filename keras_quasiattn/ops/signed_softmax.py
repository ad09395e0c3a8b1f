"""Signed softmax, "cog" attention: the softmax of the scores' sizes, with the scores' signs."""

from typing import Any

from keras import ops

from keras_quasiattn.ops.masking import masked_softmax
from keras_quasiattn.ops.scored import dot_product_attention

Tensor = Any


def signed_softmax_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, **options: Any
) -> Tensor | tuple[Tensor, Tensor]:
    """Attention that adds the values of positive scores and subtracts those of negative ones.

    E = scale · query · keyᵀ + bias;  W = sign(E) ⊙ softmax(|E|);  output = W · value

    The sizes of a row's weights sum to 1. A weight jumps where its score changes sign, and is 0 for
    a score of exactly 0. A masked pair has weight exactly 0. A query with no key to attend to gives
    all zeros. W is computed in float32 for 16-bit inputs.

    Args:
        query: (..., T, D).
        key: (..., S, D).
        value: (..., S, V).
        mask: boolean (or 0/1 integer) that broadcasts to (..., T, S); True = attend.
        **options: `scale`, `is_causal`, `dropout`, `dropout_seed`, `bias` and `return_scores`, as
            for `ops.softmax_attention`.

    Returns:
        output (..., T, V) in the dtype of `value`, or (output, W) with W (..., T, S).

    Raises:
        ValueError: a finite bias below −1e4, which does not delete a key (graphs cannot find it),
            and as `ops.softmax_attention`.

    Example:
    >>> import numpy as np
    >>> from keras_quasiattn import ops
    >>> query, key = np.ones((1, 1)), np.array([[2.0], [-2.0], [1.0]])
    >>> _, weights = ops.signed_softmax_attention(query, key, key, return_scores=True)
    >>> np.asarray(weights).round(3).tolist()
    [[0.422, -0.422, 0.155]]

    Source: Lv et al. 2024, "More Expressive Attention with Negative Weights" (Cog Attention).
    """

    def weigh(scores: Tensor, mask: Tensor | None) -> Tensor:
        return ops.sign(scores) * masked_softmax(ops.abs(scores), mask)

    return dot_product_attention(
        query, key, value, mask, weigh, "signed softmax weights", low_scores_delete=False, **options
    )
