"""Factorization machines: a linear score plus weighted products of all pairs of features."""

from typing import Any

from keras import ops

from keras_quasiattn.ops.precision import compute_dtype, project

Tensor = Any


def factorization_machine(z: Tensor, bias: Tensor, weights: Tensor, factors: Tensor) -> Tensor:
    """One score per feature vector: a linear term plus a term for every pair of features.

    y = w₀ + Σ_j w_j·z_j + Σ_{i<j} ⟨V_i, V_j⟩·z_i·z_j

    computed as w₀ + w·z + ½·Σ_f [(Σ_j V_jf·z_j)² − Σ_j V_jf²·z_j²], in D·K steps instead of D²·K.

    Computed in float32 for 16-bit inputs, because the squares soon overflow float16.

    Args:
        z: (..., D).
        bias: w₀, a scalar.
        weights: w, (D,).
        factors: V, (D, K).

    Returns:
        (...) in the dtype of `z`.

    Raises:
        ValueError: `weights` or `factors` do not match the number of features of `z`.

    Example:
    >>> import numpy as np
    >>> from keras_quasiattn import ops
    >>> z, factors = np.array([[2.0, 3.0]]), np.array([[1.0], [5.0]])
    >>> np.asarray(ops.factorization_machine(z, 0.5, np.array([1.0, 10.0]), factors)).tolist()
    [62.5]

    Source: Rendle 2010, "Factorization Machines", eq. 1 and lemma 3.1.
    """
    z = ops.convert_to_tensor(z)
    dtype = compute_dtype(z)
    bias, weights, factors = (
        ops.cast(ops.convert_to_tensor(x), dtype) for x in (bias, weights, factors)
    )
    features = z.shape[-1]
    if (
        tuple(weights.shape) != (features,)
        or len(factors.shape) != 2
        or factors.shape[0] != features
    ):
        raise ValueError(
            f"`weights` must have shape ({features},) and `factors` ({features}, K), because "
            f"`z` has {features} features. Received: weights.shape={tuple(weights.shape)}, "
            f"factors.shape={tuple(factors.shape)}"
        )
    result_dtype, z = z.dtype, ops.cast(z, dtype)
    sums = project(z, factors)  # (..., K)
    squares = project(ops.square(z), ops.square(factors))
    # (...): the square of a sum counts every pair twice.
    pairs = ops.sum(ops.square(sums) - squares, axis=-1) * ops.cast(0.5, dtype)
    return ops.cast(bias + project(z, weights) + pairs, result_dtype)
