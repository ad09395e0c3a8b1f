"""Self-attention with a bias for the distance between positions."""

from typing import Any

from keras import ops

from keras_quasiattn.ops.masking import as_boolean_mask, pair_mask, sides
from keras_quasiattn.ops.precision import as_dtype, dot_products
from keras_quasiattn.ops.softmax import attend

Tensor = Any


def intra_attention(
    features: Tensor,
    values: Tensor,
    distance_bias: Tensor,
    mask: Tensor | None = None,
    *,
    signed: bool = True,
    return_scores: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Softmax attention of a sequence to itself, with a bias for the distance of two positions.

    f[i, j] = features_i · features_j + d[i − j];
    w = softmax(f) over the positions that `mask` shows;  output = w · values

    Distances beyond a maximum m share one bias, or one per direction if `signed`. Only real
    positions count towards a distance, so padding has no effect, wherever it is. A masked position
    has weight exactly 0, its own row of the output is exactly 0, and its content has no effect.
    Weights are computed in float32 for 16-bit inputs.

    Args:
        features: (..., T, D), F_intra in the paper.
        values: (..., T, V).
        distance_bias: d. Signed: (2·m + 3,), for i − j < −m, then −m … m, then i − j > m. Unsigned:
            (m + 2,), for 0 … m, then |i − j| > m.
        mask: boolean (or 0/1 integer) (..., T), True = real.
        signed: whether i − j and j − i have separate biases.
        return_scores: also return w.

    Returns:
        output (..., T, V) in the dtype of `values`, or (output, w) with w (..., T, T).

    Raises:
        ValueError: a float mask, a rank below 2, lengths that do not match, or a `distance_bias` of
            another shape.

    Example:
    >>> import numpy as np
    >>> from keras_quasiattn import ops
    >>> x, only_itself = np.eye(3), np.array([9.0, 0.0])
    >>> output = ops.intra_attention(np.zeros((3, 1)), x, only_itself, signed=False)
    >>> np.asarray(output).round(2).tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]

    Source: Parikh et al. 2016, "A Decomposable Attention Model", §3.4.
    """
    mask = as_boolean_mask(mask, "mask")
    features, values = sides("features", features, mask, values=values)
    bias = ops.convert_to_tensor(distance_bias)
    size = bias.shape[0] if len(bias.shape) == 1 else 0
    if size < 2 or (signed and (size < 3 or size % 2 == 0)):
        length = (
            "an odd length of at least 3 (2·m + 3" if signed else "a length of at least 2 (m + 2"
        )
        raise ValueError(
            f"`distance_bias` must be a vector with {length}, m the largest distance). "
            f"Received distance_bias.shape={tuple(bias.shape)}, signed={signed}."
        )
    scores = dot_products(features, features)  # (..., T, T)
    # (T,), or (..., T) with a mask: the number of real positions so far.
    position = (
        ops.arange(ops.shape(features)[-2], dtype="int32")
        if mask is None
        else ops.cumsum(ops.cast(mask, "int32"), axis=-1)
    )
    distance = ops.expand_dims(position, -1) - ops.expand_dims(position, -2)  # i − j
    beyond = size // 2 if signed else size - 1  # m + 1
    distance = ops.clip(distance, -beyond, beyond)
    bucket = distance + beyond if signed else ops.abs(distance)
    # TensorFlow makes the gradient of `take` a list with one entry per pair of positions; the
    # reshape sums it to (size,).
    bias = ops.reshape(as_dtype(bias, scores.dtype), (size,))
    return attend(
        scores + ops.take(bias, bucket, axis=0),
        values,
        pair_mask(mask, mask),
        return_scores=return_scores,
    )
