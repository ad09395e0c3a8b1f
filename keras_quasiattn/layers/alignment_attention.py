"""Softmax alignment of two sequences by the dot products of their projections."""

from typing import Any

import keras

from keras_quasiattn.attention.softmax import attend
from keras_quasiattn.core.masks import prepare_cross_attention
from keras_quasiattn.core.tensors import dot_products
from keras_quasiattn.layers.pair_attention import OneWayAttention

Tensor = Any


def alignment_attention(
    u: Tensor, v: Tensor, values: Tensor, mask_v: Tensor | None = None, return_scores: bool = False
) -> Tensor | tuple[Tensor, Tensor]:
    """Sum the values of one sequence for every position of the other, weighted by their match.

    a = u · vᵀ;  w = softmax(a) over the positions that `mask_v` shows;  output = w · values

    The scores are not scaled, as in the paper. A masked position has weight exactly 0 and its
    content has no effect; if all are masked, the output is 0. Weights are float32 for 16-bit
    inputs.

    Args:
        u: (..., T, D), already projected.
        v: (..., S, D), already projected.
        values: (..., S, V).
        mask_v: boolean (or 0/1 integer) (..., S), True = real.
        return_scores: also return w.

    Returns:
        output (..., T, V) in the dtype of `values`, or (output, w) with w (..., T, S).

    Raises:
        ValueError: a float mask, a rank below 2, or lengths or feature counts that do not match.

    Example:
    >>> u, v, mask = np.eye(2)[None], 9 * np.eye(3, 2)[None], np.array([[1, 1, 0]])
    >>> _, weights = alignment_attention(u, v, v, mask, return_scores=True)
    >>> np.asarray(weights).round(2).tolist()
    [[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]]

    Source: Mitra 2019, "Conflict as an Inverse of Attention in Sequence Relationship", eqs. 2–4.
    """
    u, v, values, mask = prepare_cross_attention(u, v, values, mask_v)
    return attend(dot_products(u, v), values, mask, return_scores=return_scores)


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class AlignmentAttention(OneWayAttention):
    """Sum, for every position of u, the positions of v weighted by how well they match it.

    a = tanh(u·W_u)·tanh(v·W_v)ᵀ;  w = softmax(a);  output = w·v

    Masked positions, NaN included, have no effect: those of v get weight exactly 0, and the output
    is 0 in masked rows of u, or everywhere if v is fully masked. It keeps the mask of u.

    Args:
        units: size of the projections. Defaults to the number of features of u.

    Call arguments:
        inputs: [u, v] with u (B, T, features) and v (B, S, features); the numbers of features may
            differ.
        mask: [mask_u, mask_v], boolean (B, T) and (B, S), or None. Defaults to Keras' masks.
        return_attention_scores: also return w, (B, T, S).

    Returns:
        (B, T, features of v), or that and w.

    Raises:
        ValueError: the inputs are not two tensors (B, length, features), or a mask holds floats.

    Example:
    >>> u, v = np.ones((2, 3, 8), "float32"), np.ones((2, 5, 4), "float32")
    >>> tuple(AlignmentAttention(units=6)([u, v]).shape)
    (2, 3, 4)

    Source: Mitra 2019, "Conflict as an Inverse of Attention in Sequence Relationship", eqs. 1–4.
    """

    def weigh(
        self, u: Tensor, v: Tensor, values: Tensor, mask_v: Tensor | None, return_scores: bool
    ) -> Any:
        """Apply a softmax over v to the dot products."""
        return alignment_attention(u, v, values, mask_v, return_scores=return_scores)
