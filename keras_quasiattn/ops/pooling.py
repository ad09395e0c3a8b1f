"""Attention that pools a sequence into one vector: all of it, with gates, or within a window."""

from typing import Any

from keras import ops

from keras_quasiattn.ops.backend import tanh
from keras_quasiattn.ops.checks import check_rank
from keras_quasiattn.ops.gates import gated_softmax
from keras_quasiattn.ops.masking import (
    as_boolean_mask,
    combine_masks,
    masked_softmax,
    zero_masked,
    zero_padding,
)
from keras_quasiattn.ops.precision import as_dtype, compute_dtype, project, weighted_sum
from keras_quasiattn.ops.recording import record

Tensor = Any


def position_scores(states: Tensor, kernel: Tensor) -> Tensor:
    """e_t = kernelᵀ·tanh(h_t): (..., D) and (D,) → (...); float64 if both are, else float32."""
    dtype = compute_dtype(states, kernel)
    return project(tanh(ops.cast(states, dtype)), ops.cast(kernel, dtype))


def soft_attention(
    states: Tensor,
    kernel: Tensor,
    mask: Tensor | None = None,
    *,
    gates: Tensor | None = None,
    return_scores: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Pools a sequence with weights computed from its own states.

    e_t = kernelᵀ·tanh(h_t);  α = softmax(e) over the positions that `mask` shows;  r = Σ_t α_t·h_t

    With gates, α is `ops.gated_softmax` of e. A masked position has weight exactly 0 and its
    content has no effect; a sequence with every position masked gives all zeros. Weights are
    computed in float32 for 16-bit inputs.

    Args:
        states: (B, T, D), h.
        kernel: (D,).
        mask: boolean (or 0/1 integer) (B, T), True = real.
        gates: (B, T) in [0, 1]; default: all open.
        return_scores: also return α.

    Returns:
        r (B, D) in the dtype of `states`, or (r, α) with α (B, T).

    Raises:
        ValueError: a float mask, or sizes that do not match.

    Example:
    >>> import numpy as np
    >>> from keras_quasiattn import ops
    >>> h = np.array([[[1.0], [3.0], [9.0]]], "float32")
    >>> np.asarray(ops.soft_attention(h, np.zeros(1, "float32"), np.array([[1, 1, 0]]))).tolist()
    [[2.0]]

    Source: Zhou et al. 2016, "Attention-Based Bidirectional LSTM", eqs. 9–11; gates: Xue et al.
    2019, eqs. 3 and 9.
    """
    states, kernel = check_states(states, kernel)
    mask = as_boolean_mask(mask, "mask")
    states = zero_padding(states, mask)
    scores = position_scores(states, kernel)  # (B, T)
    weights = masked_softmax(scores, mask) if gates is None else gated_softmax(scores, gates, mask)
    record("weights", weights, mask, "weights")
    return _pooled(weights, states, return_scores)


def local_attention(
    states: Tensor,
    kernel: Tensor,
    center: Tensor,
    mask: Tensor | None = None,
    *,
    window: int = 10,
    return_scores: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Pools the part of a sequence around a position given for each example.

    p = S·center;  α_s = softmax(e)_s over real positions s with |s − p| ≤ D, times
    exp(−(s − p)²/(2σ²)), σ = D/2;  r = Σ_s α_s·h_s

    D is the window and e the scores of `ops.soft_attention`. As in the source, α is not normalised
    again after the Gaussian. S and s count real positions only, so padding has no effect, wherever
    it is. A sequence without real positions gives all zeros.

    Args:
        states: (B, T, D).
        kernel: (D,).
        center: (B,), the centre of the window, as a fraction of the length between 0 and 1.
        mask: boolean (or 0/1 integer) (B, T), True = real.
        window: D, the number of positions on each side.
        return_scores: also return α.

    Returns:
        r (B, D) in the dtype of `states`, or (r, α) with α (B, T).

    Raises:
        ValueError: a float mask, or sizes that do not match.

    Example:
    >>> import numpy as np
    >>> from keras_quasiattn import ops
    >>> h = np.ones((1, 7, 2), "float32")
    >>> _, weights = ops.local_attention(
    ...     h, np.ones(2, "float32"), np.array([0.5]), window=1, return_scores=True
    ... )
    >>> np.asarray(weights, "float64")[0].round(3).tolist()  # p = 3.5
    [0.0, 0.0, 0.0, 0.303, 0.303, 0.0, 0.0]

    Source: Luong et al. 2015, "Effective Approaches to Attention-based NMT", §3.2 (local-p); Xue
    et al. 2019.
    """
    states, kernel = check_states(states, kernel)
    mask = as_boolean_mask(mask, "mask")
    states = zero_padding(states, mask)
    scores = position_scores(states, kernel)
    real = ops.ones_like(scores, dtype="bool") if mask is None else mask
    # count (B, T): real positions up to and including each; length (B,): S; position (B, 1): p.
    count = ops.cumsum(ops.cast(real, scores.dtype), axis=1)
    length = ops.sum(ops.cast(real, scores.dtype), axis=1)
    position = ops.expand_dims(as_dtype(center, scores.dtype) * length, 1)
    distance = count - 1 - position  # s − p, (B, T)
    near = combine_masks(real, ops.less_equal(ops.abs(distance), window))
    bell = ops.exp(-2 * ops.square(zero_masked(distance, near) / window))  # 2σ² = D²/2
    weights = masked_softmax(scores, near) * bell
    record("weights", weights, mask, "weights")
    return _pooled(weights, states, return_scores)


def _pooled(weights: Tensor, states: Tensor, return_scores: bool) -> Tensor | tuple[Tensor, Tensor]:
    output = weighted_sum("bt,btd->bd", weights, states)
    return (output, ops.cast(weights, states.dtype)) if return_scores else output


def check_states(states: Tensor, kernel: Tensor) -> tuple[Tensor, Tensor]:
    """Both as tensors; raises a `ValueError` unless they are (B, T, D) and (D,)."""
    states, kernel = ops.convert_to_tensor(states), ops.convert_to_tensor(kernel)
    check_rank(states, "states")
    if len(states.shape) != 3 or tuple(kernel.shape) != (states.shape[-1],):
        raise ValueError(
            "`states` must have shape (B, T, D) and `kernel` (D,). "
            f"Received states.shape={tuple(states.shape)} and kernel.shape={tuple(kernel.shape)}."
        )
    return states, kernel
