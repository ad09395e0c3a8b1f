"""Gates of GA-Net, soft in training and binary at inference, and a softmax weighted by them."""

from typing import Any

from keras import ops

from keras_quasiattn.ops.masking import as_boolean_mask, combine_masks, masked_softmax
from keras_quasiattn.ops.precision import as_dtype, compute_dtype
from keras_quasiattn.ops.recording import record

Tensor = Any


def gumbel_gate(probability: Tensor, noise: Tensor, temperature: float | Tensor) -> Tensor:
    """Soft gates between 0 and 1: a differentiable approximation of Bernoulli(probability) draws.

    g = second entry of the softmax over i in {0, 1} of (log p_i + ε_i)/τ, with p_0 = 1 − p, p_1 = p

    As τ falls, the gates approach 0 and 1. They are computed in float32 for 16-bit inputs and are
    never exactly 0, so a row whose gates are all nearly closed still has weights and gradients.
    Masks are applied by `ops.gated_softmax`, not here.

    Args:
        probability: (...), p in [0, 1].
        noise: (..., 2), draws from Gumbel(0, 1): ε_0 for closed, ε_1 for open.
        temperature: τ > 0, a number or a tensor that broadcasts to (...).

    Returns:
        gates (...), float64 if both inputs are, otherwise float32.

    Raises:
        ValueError: `noise` is not (..., 2).

    Example:
    >>> import numpy as np
    >>> from keras_quasiattn import ops
    >>> gate = ops.gumbel_gate(np.array([0.8, 0.2]), np.zeros((2, 2)), temperature=1.0)
    >>> np.asarray(gate).round(6).tolist()
    [0.8, 0.2]

    Source: Xue et al. 2019, "Not All Attention Is Needed", eq. 8; Jang et al. 2017.
    """
    probability, noise = ops.convert_to_tensor(probability), ops.convert_to_tensor(noise)
    dtype = compute_dtype(probability, noise)
    least = 1e-7 if dtype == "float32" else 1e-15  # keeps both logarithms finite
    bounds = (as_dtype(bound, dtype) for bound in (least, 1 - least))
    probability = ops.clip(ops.cast(probability, dtype), *bounds)
    return gumbel_gate_of_logits(ops.log(probability) - ops.log1p(-probability), noise, temperature)


def gumbel_gate_of_logits(logits: Tensor, noise: Tensor, temperature: float | Tensor) -> Tensor:
    """`gumbel_gate` of sigmoid(logits), accurate even where the sigmoid rounds to 0 or 1."""
    noise = ops.convert_to_tensor(noise)
    if noise.shape[-1] != 2:
        raise ValueError(
            "`noise` must have shape (..., 2): one draw for the closed gate and one for the open "
            f"gate. Received: noise.shape={tuple(noise.shape)}"
        )
    dtype = compute_dtype(logits, noise)
    noise = ops.cast(noise, dtype)
    # A softmax over two entries is the sigmoid of their difference: (..., 2) → (...).
    balance = ops.cast(logits, dtype) + noise[..., 1] - noise[..., 0]
    return ops.sigmoid(ops.clip(balance / as_dtype(temperature, dtype), -80.0, 80.0))


def gated_softmax(scores: Tensor, gates: Tensor, mask: Tensor | None = None) -> Tensor:
    """Softmax over the last axis with each position weighted by its gate.

    α_t = g_t · exp(e_t) / Σ_t' g_t' · exp(e_t')

    Computed as a softmax of e + log g, in float32 for 16-bit inputs, so that no exponential
    overflows. A position that is masked or whose gate is exactly 0 has weight exactly 0 and no
    gradient. A row without an open, unmasked position gives all zeros and zero gradients.

    Args:
        scores: (..., T), e.
        gates: (..., T) in [0, 1], soft or binary, or boolean; broadcasts against `scores`.
        mask: boolean (or 0/1 integer) that broadcasts to (..., T); True = attend.

    Returns:
        weights (..., T), float64 if both inputs are, otherwise float32.

    Raises:
        ValueError: a float mask.

    Example:
    >>> import numpy as np
    >>> from keras_quasiattn import ops
    >>> weights = ops.gated_softmax(
    ...     np.zeros((1, 3), "float32"), np.array([[1.0, 0.0, 1.0]], "float32")
    ... )
    >>> np.asarray(weights).tolist()
    [[0.5, 0.0, 0.5]]

    Source: Xue et al. 2019, eqs. 2 and 9.
    """
    scores, gates = ops.convert_to_tensor(scores), ops.convert_to_tensor(gates)
    dtype = compute_dtype(scores, gates)
    gates = ops.cast(gates, dtype)
    is_open = ops.logical_not(ops.less_equal(gates, 0))  # a gate of NaN shows, in its row
    # log g, or 0 for a closed gate, which the mask then removes.
    openness = ops.log(ops.where(is_open, gates, ops.ones_like(gates)))
    mask = combine_masks(as_boolean_mask(mask, "mask"), is_open)
    return masked_softmax(ops.cast(scores, dtype) + openness, mask)


def hard_gates(
    probability: Tensor, threshold: float | Tensor = 0.5, mask: Tensor | None = None
) -> Tensor:
    """Binary gates: open where the probability reaches the threshold, and at least one per row.

    g_t = [p_t ≥ threshold]

    If a row has no open gate after that, the gate of its valid position with the highest
    probability opens, the first one on ties. A row without valid positions has no open gate.

    Args:
        probability: (..., T), p in [0, 1].
        threshold: a number, or a tensor (..., T) of uniform draws, with which the gates are draws
            from Bernoulli(p).
        mask: boolean (or 0/1 integer) that broadcasts against `probability`; True = valid.

    Returns:
        boolean gates, in the shape to which `probability` and `mask` broadcast.

    Raises:
        ValueError: a float mask.

    Example:
    >>> import numpy as np
    >>> from keras_quasiattn import ops
    >>> np.asarray(ops.hard_gates(np.array([[0.9, 0.6, 0.1], [0.1, 0.3, 0.2]]))).tolist()
    [[True, True, False], [False, True, False]]

    Source: Xue et al. 2019, eqs. 5 and 6. The rule for rows with all gates closed is ours: eq. 2 is
    undefined there.
    """
    probability = ops.convert_to_tensor(probability)
    dtype = compute_dtype(probability)
    probability, mask = ops.cast(probability, dtype), as_boolean_mask(mask, "mask")
    # A probability of NaN opens its gate, so that the row is NaN, not silently without the key.
    gates = ops.logical_not(ops.less(probability, as_dtype(threshold, dtype)))
    if mask is not None:
        gates = ops.logical_and(gates, mask)
        probability = ops.where(mask, probability, ops.cast(-1, dtype))
    # `initial` defines the maximum of an empty row (T = 0).
    highest = ops.max(probability, axis=-1, keepdims=True, initial=-1.0)  # (..., 1)
    best = ops.logical_and(ops.equal(probability, highest), ops.greater_equal(probability, 0))
    # (..., T), True at the first of the best positions.
    first = ops.logical_and(best, ops.equal(ops.cumsum(ops.cast(best, "int32"), axis=-1), 1))
    gates = ops.where(ops.any(gates, axis=-1, keepdims=True), gates, first)
    record("gates", gates, mask, "gates")
    return gates
