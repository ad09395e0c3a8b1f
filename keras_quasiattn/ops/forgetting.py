"""Forgetting attention: a softmax in which gates between a key and its query lower the score."""

from typing import Any

from keras import ops

from keras_quasiattn.ops.backend import cumsum
from keras_quasiattn.ops.masking import masked_softmax, zero_masked
from keras_quasiattn.ops.precision import as_dtype
from keras_quasiattn.ops.scored import dot_product_attention

Tensor = Any


def forgetting_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    log_forget: Tensor,
    **options: Any,
) -> Tensor | tuple[Tensor, Tensor]:
    """Softmax attention in which every key lets the query forget some of the keys before it.

    D_ts = Σ log f_r over the keys r after s that query t sees;
    W = softmax(scale · query · keyᵀ + bias + D);  output = W · value

    With a causal mask D_ts is the sum over r = s + 1 … t, as in the paper. Without one a query sees
    keys on both sides, and each key is lowered by all that follow it. A masked key has weight
    exactly 0 and forgets nothing. A query with no key to attend to gives all zeros. W is computed
    in float32 for 16-bit inputs.

    Args:
        query: (..., T, D).
        key: (..., S, D).
        value: (..., S, V).
        mask: boolean (or 0/1 integer) that broadcasts to (..., T, S); True = attend.
        log_forget: log f, the logarithms of the gates in (0, 1], (..., S).
        **options: `scale`, `is_causal`, `dropout`, `dropout_seed`, `bias` and `return_scores`, as
            for `ops.softmax_attention`.

    Returns:
        output (..., T, V) in the dtype of `value`, or (output, W) with W (..., T, S).

    Raises:
        ValueError: as `ops.softmax_attention`.

    Example:
    >>> import numpy as np
    >>> from keras_quasiattn import ops
    >>> x, gates = np.zeros((3, 1)), np.full(3, 0.5)
    >>> options = {"log_forget": np.log(gates), "is_causal": True, "return_scores": True}
    >>> _, weights = ops.forgetting_attention(x, x, x, **options)
    >>> np.asarray(weights).round(3).tolist()
    [[1.0, 0.0, 0.0], [0.333, 0.667, 0.0], [0.143, 0.286, 0.571]]

    Source: Lin et al. 2025, "Forgetting Transformer: Softmax Attention with a Forget Gate", eqs. 4
    to 6.
    """

    def weigh(scores: Tensor, mask: Tensor | None) -> Tensor:
        gates = zero_masked(ops.expand_dims(as_dtype(log_forget, scores.dtype), -2), mask)
        backward = ops.flip(gates, axis=-1)
        lowered = ops.flip(cumsum(backward) - backward, axis=-1)
        return masked_softmax(scores + lowered, mask)

    return dot_product_attention(query, key, value, mask, weigh, "forgetting weights", **options)
