"""Pairwise L1 distance."""

from typing import Any

from keras import ops

from keras_quasiattn.ops.composition import check_choice
from keras_quasiattn.ops.distance_blockwise import blockwise_l1
from keras_quasiattn.ops.precision import as_dtype, compute_dtype

Tensor = Any


IMPLEMENTATIONS = ("auto", "reference", "blockwise")


def pairwise_l1(
    x: Tensor, y: Tensor, weights: Tensor | None = None, *, implementation: str = "auto"
) -> Tensor:
    """L1 distance of every row of `x` to every row of `y`.

    D[t, s] = Σ_f weights[f] · |x[t, f] − y[s, f]|

    The distance and its gradient are computed in float32 for 16-bit inputs. The derivative of |z| at 0 is 0,
    so a position's distance to itself has no gradient.

    Args:
        x: (..., T, D).
        y: (..., S, D); leading dimensions broadcast against those of `x`.
        weights: optional (D,), one factor a feature, of any sign.
        implementation: "reference" subtracts at once, with a (..., T, S, D) tensor on the way; "blockwise" goes
            through tiles of keys, forward and backward, and makes no tensor larger than the result; "auto" is
            "blockwise". Both give the same distances and gradients to rounding.

    Returns:
        (..., T, S), float64 for float64 inputs and otherwise float32.

    Raises:
        ValueError: an unknown implementation, ranks below 2, last dimensions that differ, or `weights` of
            another shape.

    Example:
    >>> import numpy as np
    >>> from keras_quasiattn import ops
    >>> distance = ops.pairwise_l1(np.array([[1.0, 2.0]]), np.array([[0.0, 0.0], [1.0, 5.0]]))
    >>> np.asarray(distance).tolist()
    [[3.0, 3.0]]

    Source: Tay et al. 2019 (CoDA), eq. 2; the weighted form is what Mitra 2019, eq. 7, needs with absolute differences.
    """
    x, y = ops.convert_to_tensor(x), ops.convert_to_tensor(y)
    check_features(x, y, "x", "y")
    check_choice(implementation, IMPLEMENTATIONS, "implementation")
    if weights is not None:
        weights = ops.convert_to_tensor(weights)
        if len(weights.shape) != 1 or (
            None not in (weights.shape[0], x.shape[-1]) and weights.shape[0] != x.shape[-1]
        ):
            raise ValueError(
                f"`weights` must have shape ({x.shape[-1]},), one factor a feature. "
                f"Received weights.shape={tuple(weights.shape)}."
            )
    dtype = compute_dtype(x, y)
    if weights is not None:
        weights = as_dtype(weights, dtype)
    if implementation != "reference":
        return blockwise_l1(ops.cast(x, dtype), ops.cast(y, dtype), weights)
    x, y = ops.expand_dims(ops.cast(x, dtype), -2), ops.expand_dims(ops.cast(y, dtype), -3)
    difference = x - y  # (..., T, S, D)
    # Not ops.abs: on JAX its derivative at 0 is 1, not 0.
    magnitude = difference * ops.stop_gradient(ops.sign(difference))
    if weights is not None:
        magnitude = magnitude * weights
    return ops.sum(magnitude, axis=-1)


def check_rank(x: Tensor, name: str) -> None:
    """Raises a `ValueError` unless `x` is (..., length, features)."""
    if len(x.shape) < 2:
        raise ValueError(
            f"`{name}` must have shape (..., length, features). Received shape {tuple(x.shape)}."
        )


def check_features(x: Tensor, y: Tensor, x_name: str, y_name: str) -> None:
    """Raises a `ValueError` unless both are (..., length, D) with the same D."""
    check_rank(x, x_name)
    check_rank(y, y_name)
    if None not in (x.shape[-1], y.shape[-1]) and x.shape[-1] != y.shape[-1]:
        raise ValueError(
            f"`{x_name}` and `{y_name}` must have the same number of features (last dimension). "
            f"Received {x_name}.shape={tuple(x.shape)} and {y_name}.shape={tuple(y.shape)}."
        )
