"""Sparsemax: the nearest distribution to the scores, in which low scores have weight exactly 0."""

import dataclasses
from typing import Any

import keras
from keras import ops

from keras_quasiattn.attention.base import ScoreAttention, dot_product_attention, register_attention
from keras_quasiattn.attention.multi_head import MultiHeadQuasiAttention
from keras_quasiattn.attention.sparse_tensors import sparse_weights_of_tensors
from keras_quasiattn.core.compiled.choice import are_few, by_amount, loops_may_run
from keras_quasiattn.core.masks import as_boolean_mask
from keras_quasiattn.core.tensors import compute_dtype
from keras_quasiattn.core.tiling import leading_size

Tensor = Any
_FEW_SCORES = 2**14  # up to which a call of compiled loops takes longer than operations on tensors


def sparsemax(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    """Project each row of scores onto the probability simplex; many weights are exactly 0.

    p = argmin over distributions p of ‖p − z‖²  =  max(z − τ, 0), with τ such that p sums to 1

    τ is found by bisection and then Newton's method, to the precision of the floats. The gradients
    are exact. A masked score has weight exactly 0, whatever its value. Each row sums to 1, except
    that a row without visible keys is all zeros. Computed in float32 for 16-bit inputs.

    Args:
        scores: z, (..., S).
        mask: boolean (or 0/1 integer) that broadcasts to (..., S); True = visible.

    Returns:
        p (..., S), float64 if `scores` is, otherwise float32.

    Raises:
        ValueError: a float mask.

    Example:
    >>> np.asarray(sparsemax(np.array([0.3, 0.1, -1.2]))).round(6).tolist()
    [0.6, 0.4, 0.0]

    Source: Martins & Astudillo 2016, "From Softmax to Sparsemax", eq. 2, algorithm 1 and prop. 2.
    """
    scores, mask = ops.convert_to_tensor(scores), as_boolean_mask(mask, "mask")
    return sparse_weights(ops.cast(scores, compute_dtype(scores)), mask, 2.0)


def sparsemax_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, **options: Any
) -> Tensor | tuple[Tensor, Tensor]:
    """Attend with weights that sum to 1, most of them exactly 0.

    W = sparsemax(scale · query · keyᵀ + bias) over the visible keys;  output = W · value

    Masks, precision and errors are as in `ops.softmax_attention`.

    Args:
        query: (..., T, D).
        key: (..., S, D).
        value: (..., S, V).
        mask: boolean (or 0/1 integer) that broadcasts to (..., T, S); True = attend.
        **options: as for `ops.softmax_attention`, from `scale` on.

    Returns:
        output (..., T, V) in the dtype of `value`, or (output, W) with W (..., T, S).

    Example:
    >>> query, key = np.ones((1, 1)), np.array([[0.3], [0.1], [-1.2]])
    >>> _, weights = sparsemax_attention(query, key, key, return_scores=True)
    >>> np.asarray(weights).round(6).tolist()
    [[0.6, 0.4, 0.0]]

    Source: Martins & Astudillo 2016, "From Softmax to Sparsemax", section 4.2.
    """
    return dot_product_attention(query, key, value, mask, sparsemax, "sparsemax weights", **options)


def sparse_weights(
    scores: Tensor, mask: Tensor | None, alpha: float | Tensor, *, is_convex: bool = True
) -> Tensor:
    """Return max((α − 1)·z − τ, 0)^(1/(α − 1)), (..., S), with τ such that a row sums to 1.

    The scores are float32 or float64. α is above 1; `is_convex` says that it is at most 2. A tensor
    α (..., 1) gets a gradient, too. NaN in a row makes all its visible weights NaN. Compiled loops
    compute the weights of many scores, unless α is a tensor.
    """

    def with_tensors(scores: Tensor, mask: Tensor | None = None) -> Tensor:
        return sparse_weights_of_tensors(scores, mask, alpha, is_convex=is_convex)

    def in_loops(scores: Tensor, mask: Tensor | None = None) -> Tensor:
        from keras_quasiattn.attention.sparse_loops import SparseCall
        from keras_quasiattn.core.compiled.run import run, shared_mask

        shape = (1,) * (2 - len(scores.shape)) + tuple(ops.shape(scores))
        masks = {} if mask is None else shared_mask(mask, shape[:-2])
        rows = ops.reshape(scores, (leading_size(shape[:-2]), *shape[-2:]))  # (B, T, S)
        weights = run(SparseCall(float(alpha), tuple(masks)), [rows], list(masks.values()))
        return ops.reshape(weights[0], ops.shape(scores))

    axes = [(scores, axis) for axis in range(len(scores.shape))]
    is_number = isinstance(alpha, (int, float))
    if not is_number or are_few(axes, _FEW_SCORES) or not loops_may_run(scores):
        return with_tensors(scores, mask)
    given = [scores] if mask is None else [scores, mask]
    return by_amount(axes, _FEW_SCORES, with_tensors, in_loops, *given)


@dataclasses.dataclass
class Sparsemax(ScoreAttention):
    """Weights are the sparsemax of the scores; there are no options."""

    label = "sparsemax weights"

    def weights(self, scores: Tensor, mask: Tensor | None, learned: dict[str, Any]) -> Tensor:
        """Return the sparsemax of each row."""
        return sparsemax(scores, mask)


@register_attention("sparsemax")
@keras.saving.register_keras_serializable(package="keras_quasiattn")
class MultiHeadSparsemax(MultiHeadQuasiAttention):
    """`keras.layers.MultiHeadAttention` with sparse weights: they sum to 1, and most are exactly 0.

    weights = sparsemax(q·kᵀ/√H) over the visible keys;  output = (weights·v)·W_o

    All else is as in `layers.MultiHeadSoftmax`.

    Args:
        **arguments: as for `layers.MultiHeadQuasiAttention`.

    Returns:
        (B, T, features); with `return_attention_scores` also the weights (B, N, T, S).

    Example:
    >>> x = np.ones((2, 5, 16), "float32")
    >>> tuple(MultiHeadSparsemax(num_heads=2, key_dim=8)(x, x).shape)
    (2, 5, 16)

    Source: Martins & Astudillo 2016, "From Softmax to Sparsemax".
    """

    options_class = Sparsemax
