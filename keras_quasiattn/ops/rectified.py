"""ReLU attention: weights are rectified scores, divided by the number of keys."""

from typing import Any

from keras import ops

from keras_quasiattn.ops.masking import visible_count, zero_masked
from keras_quasiattn.ops.scored import dot_product_attention

Tensor = Any


def relu_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, **options: Any
) -> Tensor | tuple[Tensor, Tensor]:
    """Attention whose weights do not compete, are 0 for negative scores and have no upper limit.

    W = max(scale · query · keyᵀ + bias, 0) / n;  output = W · value

    n is the number of keys that the query attends to; in the paper it is the length of the
    sequence. A masked pair has weight exactly 0 and does not count in n. A query with no key to
    attend to gives all zeros. W is computed in float32 for 16-bit inputs.

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
        ValueError: as `ops.softmax_attention`.

    Example:
    >>> import numpy as np
    >>> from keras_quasiattn import ops
    >>> query, key = np.ones((1, 1)), np.array([[2.0], [1.0], [-1.0], [0.0]])
    >>> _, weights = ops.relu_attention(query, key, key, return_scores=True)
    >>> np.asarray(weights).tolist()
    [[0.5, 0.25, 0.0, 0.0]]

    Source: Wortsman et al. 2023, "Replacing softmax with ReLU in Vision Transformers", with the
    exponent 1 of the length.
    """

    def weigh(scores: Tensor, mask: Tensor | None) -> Tensor:
        return zero_masked(ops.relu(scores) / visible_count(scores, mask), mask)

    return dot_product_attention(query, key, value, mask, weigh, "relu weights", **options)
