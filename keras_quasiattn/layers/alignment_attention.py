"""Softmax alignment of one sequence to another."""

from typing import Any

import keras

from keras_quasiattn import ops
from keras_quasiattn.layers.shared.one_way_attention import OneWayAttention

Tensor = Any


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class AlignmentAttention(OneWayAttention):
    """Gives every position of u what matches it in v.

    a = tanh(u·W_u)·tanh(v·W_v)ᵀ;  w = softmax(a);  output = w·v

    A masked position of v weighs exactly 0, a masked row of u is exactly 0 in the output, and so is every row if
    nothing of v is real; nothing that stands at masked positions, NaN included, matters. The output keeps the
    mask of u.

    Args:
        units: size of the projections; default the features of u.
        **kwargs: `name`, `dtype` and the like.

    Call arguments:
        inputs: [u, v] with u (B, T, features) and v (B, S, features), the features not necessarily as many.
        mask: [mask_u, mask_v], each None or boolean (or 0/1 integer) (B, T) and (B, S); default the masks that
            Keras attached to the inputs.
        return_attention_scores: also return w, (B, T, S).

    Returns:
        (B, T, features of v), or that and w.

    Raises:
        ValueError: inputs that are not two (B, length, features), a float mask.

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
        """Softmax of the products."""
        return ops.alignment_attention(u, v, values, mask_v, return_scores=return_scores)
