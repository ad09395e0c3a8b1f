"""Softmax alignment of one sequence to another."""

from typing import Any

import keras

from keras_quasiattn import ops
from keras_quasiattn.layers.shared.one_way_attention import OneWayAttention

Tensor = Any


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class AlignmentAttention(OneWayAttention):
    """Returns, for every position of u, a weighted sum of the positions of v that match it.

    a = tanh(u·W_u)·tanh(v·W_v)ᵀ;  w = softmax(a);  output = w·v

    Masked positions of v get weight exactly 0. Masked rows of u are exactly 0 in the output, and so
    are all rows if v is fully masked. Values at masked positions, NaN included, have no effect. The
    output keeps the mask of u.

    Args:
        units: size of the projections. Defaults to the number of features of u.
        **kwargs: arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        inputs: [u, v] with u (B, T, features) and v (B, S, features); the numbers of features may
            differ.
        mask: [mask_u, mask_v], each None or boolean (or 0/1 integer) of shape (B, T) and (B, S),
            True = real. Defaults to the masks that Keras attached to the inputs.
        return_attention_scores: also return w, (B, T, S).

    Returns:
        (B, T, features of v), or that and w.

    Raises:
        ValueError: the inputs are not two tensors (B, length, features), or a mask holds floats.

    Example:
    >>> import numpy as np
    >>> from keras_quasiattn.layers import AlignmentAttention
    >>> u, v = np.ones((2, 3, 8), "float32"), np.ones((2, 5, 4), "float32")
    >>> tuple(AlignmentAttention(units=6)([u, v]).shape)
    (2, 3, 4)

    Source: Mitra 2019, "Conflict as an Inverse of Attention in Sequence Relationship", eqs. 1–4.
    """

    def weigh(
        self, u: Tensor, v: Tensor, values: Tensor, mask_v: Tensor | None, return_scores: bool
    ) -> Any:
        """Applies a softmax over v to the dot products."""
        return ops.alignment_attention(u, v, values, mask_v, return_scores=return_scores)
