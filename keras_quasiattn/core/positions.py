"""Relative positions in attention: ALiBi, the buckets of T5, and rotation of queries and keys."""

from typing import Any

from keras import ops

from keras_quasiattn.core.arguments import check, check_positive_integer, check_shape, is_number
from keras_quasiattn.core.backend import cos, sin
from keras_quasiattn.core.tensors import as_floats, compute_dtype

Tensor = Any


def alibi_bias(num_heads: int, target_length: Any, source_length: Any) -> Tensor:
    """Return a bias that falls linearly with the distance of query and key, at a rate per head.

    bias[n, t, s] = −m_n · |t − s|;  m_n = 2^(−8·(n + 1)/N)

    If N is not a power of two, the first heads have the slopes of the next lower power P, and the
    others every second slope of 2·P. Under a softmax the bias favours near keys. Under CoDA it
    moves E: tanh(E) of a distant pair goes to −1, so a distant key is subtracted, not ignored; only
    the gate deletes.

    Args:
        num_heads: N, a positive integer.
        target_length: T, the number of queries; an integer or, in a graph, a scalar tensor.
        source_length: S, the number of keys; of the same types. Both sequences start at position 0.

    Returns:
        (N, T, S) in float32.

    Raises:
        ValueError: `num_heads` is not a positive integer, or a length is None.

    Example:
    >>> np.asarray(alibi_bias(8, 3, 3))[0].tolist()
    [[-0.0, -0.5, -1.0], [-0.5, -0.0, -0.5], [-1.0, -0.5, -0.0]]

    Source: Press et al. 2022, "Train Short, Test Long: Attention with Linear Biases Enables Input
    Length Extrapolation"; the slopes of other head counts as in its code.
    """
    check_positive_integer(num_heads, "num_heads")
    power = 2 ** (num_heads.bit_length() - 1)
    exponents = [8 * (head + 1) / power for head in range(power)]
    exponents += [8 * (2 * head + 1) / (2 * power) for head in range(num_heads - power)]
    slopes = ops.convert_to_tensor([2**-exponent for exponent in exponents], dtype="float32")
    rows = _positions(target_length, "target_length")
    columns = _positions(source_length, "source_length")
    distance = ops.abs(rows[:, None] - columns)  # (T, S)
    return -slopes[:, None, None] * ops.cast(distance, "float32")


def relative_buckets(
    offsets: Tensor, num_buckets: int, max_distance: int, bidirectional: bool
) -> Tensor:
    """Return T5's bucket for each offset, the position of the key minus that of the query.

    Each short distance has its own bucket. Longer ones share buckets whose width grows
    logarithmically, and all distances from `max_distance` on share the last. With `bidirectional`,
    keys ahead of a query use the second half of the buckets; otherwise they share the bucket of
    distance 0.

    Source: Raffel et al. 2020, "Exploring the Limits of Transfer Learning with a Unified
    Text-to-Text Transformer", section 2.1, and its code.
    """
    count = num_buckets // 2 if bidirectional else num_buckets
    exact, wide = count // 2, count - count // 2
    # The integer at which each wide bucket begins, because a float logarithm may round across an
    # edge. Bucket exact + i begins at exact · (max_distance / exact)^(i / wide).
    starts = list(range(1, exact + 1))
    for index in range(1, wide):
        # Start one below the float root and count up to the edge.
        start = max(starts[-1], int(exact * (max_distance / exact) ** (index / wide)) - 1)
        while start**wide < max_distance**index * exact ** (wide - index):
            start += 1
        starts.append(start)
    distance = ops.abs(offsets) if bidirectional else ops.maximum(-offsets, 0)
    edges = ops.convert_to_tensor(starts, dtype="int32")
    reached = ops.greater_equal(ops.expand_dims(distance, -1), edges)
    buckets = ops.sum(ops.cast(reached, "int32"), axis=-1)
    if not bidirectional:
        return buckets
    return buckets + count * ops.cast(ops.greater(offsets, 0), "int32")


def rotary_embedding(x: Tensor, start: Any = 0, base: float = 10_000.0, axis: int = -2) -> Tensor:
    """Rotate the features of each position by angles proportional to the position (RoPE).

    (x_i, x_{i+H/2}) → (x_i·cos a − x_{i+H/2}·sin a, x_{i+H/2}·cos a + x_i·sin a),
    a = position · base^(−2·i/H)

    Feature i is paired with feature i + H/2 (rotate-half, as in GPT-NeoX and Llama), not with its
    neighbour. The dot product and the Euclidean distance of a rotated query and a rotated key
    depend on their positions only through the difference. Their L1 distance does not: in CoDA, N
    depends on both absolute positions. Computed in float32 for 16-bit inputs.

    Args:
        x: (..., L, H), queries or keys; H is even.
        start: position of the first row, an integer or scalar tensor. Defaults to 0.
        base: base of the angle frequencies, a number above 1. Defaults to 10,000.
        axis: the axis of positions, if `x` has further axes between it and the features. Defaults
            to -2.

    Returns:
        A tensor with the shape of `x`, and its dtype if that is a float type.

    Raises:
        ValueError: H is odd or unknown, or `base` is not above 1.

    Example:
    >>> np.asarray(rotary_embedding(np.array([[1.0, 0.0]] * 2))).round(3).tolist()
    [[1.0, 0.0], [0.54, 0.841]]

    Source: Su et al. 2021, "RoFormer: Enhanced Transformer with Rotary Position Embedding", eq. 34.
    """
    x = as_floats(x)
    fits = len(x.shape) > 1 and x.shape[-1] is not None and x.shape[-1] % 2 == 0
    expected = "shape (..., length, features) with an even number of features"
    check_shape(fits, x.shape, "x", expected)
    check(is_number(base) and base > 1, base, "base", "a number above 1, such as 10_000.0")
    half, dtype = x.shape[-1] // 2, compute_dtype(x)
    rates = [base ** (-index / half) for index in range(half)]
    positions = ops.arange(ops.shape(x)[axis], dtype="int32") + ops.cast(start, "int32")
    # (L, H / 2), with axes of length 1 in between.
    angles = ops.cast(positions, dtype)[:, None] * ops.convert_to_tensor(rates, dtype=dtype)
    between = tuple(range(1, len(x.shape) - 1 - axis % len(x.shape)))
    angles = ops.expand_dims(angles, between) if between else angles
    sine, cosine = sin(angles), cos(angles)
    left, right = ops.cast(x[..., :half], dtype), ops.cast(x[..., half:], dtype)
    turned = [left * cosine - right * sine, right * cosine + left * sine]
    return ops.cast(ops.concatenate(turned, axis=-1), x.dtype)


def _positions(length: Any, name: str) -> Tensor:
    expected = "an integer, or a scalar tensor such as `keras.ops.shape(x)[1]`"
    return ops.arange(check(length is not None, length, name, expected), dtype="int32")
