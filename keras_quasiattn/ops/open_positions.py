"""Attention that computes the positions with an open gate only, to save work."""

from collections.abc import Callable
from typing import Any

from keras import ops

from keras_quasiattn.ops.backend import needs_static_shapes, segment_max, segment_sum
from keras_quasiattn.ops.checks import check_choice
from keras_quasiattn.ops.masking import as_boolean_mask, zero_masked
from keras_quasiattn.ops.pooling import check_states, position_scores, soft_attention
from keras_quasiattn.ops.recording import is_recording, record

Tensor = Any
GATED_IMPLEMENTATIONS = ("auto", "reference", "gathered")


def open_positions_attention(
    states: Tensor,
    kernel: Tensor,
    open_positions: Tensor,
    *,
    encode: Callable[[Tensor], Tensor] | None = None,
    window: int = 1,
    return_scores: bool = False,
    implementation: str = "auto",
) -> Tensor | tuple[Tensor, Tensor]:
    """Soft attention that computes scores, softmax and sum for the open positions only.

    e_t = kernelᵀ·tanh(h_t);  α_t = exp(e_t) / Σ_t' exp(e_t');  r = Σ_t α_t·h_t;
    t and t' over the open positions

    The open positions of all examples are gathered into one list of rows, so the work depends on
    their total number, not on the example with the most. The content of a closed position has no
    effect; an example without open positions gives all zeros. Weights are computed in float32 for
    16-bit inputs.

    With `encode`, the states are computed here, from the `window` inputs around each position, and
    also for the open positions only. Then a closed position matters within the windows of others.

    Args:
        states: (B, T, D), h; with `encode`, its inputs (B, T, E).
        kernel: (D,).
        open_positions: boolean (or 0/1 integer) (B, T): gates and mask in one, as `ops.hard_gates`
            returns them.
        encode: a function of (N, L, E) that returns (N, L − window + 1, D), such as a convolution
            without padding. Each sequence is padded with zeros so that it has T states.
        window: inputs that a state is computed from, an odd number. Defaults to 1.
        return_scores: also return α.
        implementation: "gathered" works as above. "reference" computes all positions and gives
            closed ones weight 0. "auto" is "gathered", or "reference" where the size of a tensor
            must not depend on its content: under XLA (`jit_compile=True`) and while JAX traces for
            `jit` or a gradient. All agree up to rounding.

    Returns:
        r (B, D) in the dtype of `states`, or (r, α) with α (B, T).

    Raises:
        ValueError: a float mask, sizes that do not match, an even `window`, an unknown
            implementation, or "gathered" where shapes must be static.

    Example:
    >>> import numpy as np
    >>> from keras_quasiattn import ops
    >>> h = np.array([[[1.0], [3.0], [9.0]]], "float32")
    >>> gates = np.array([[True, False, True]])
    >>> np.asarray(ops.open_positions_attention(h, np.zeros(1, "float32"), gates)).tolist()
    [[5.0]]

    Source: Xue et al. 2019, "Not All Attention Is Needed", eqs. 2 and 3.
    """
    check_choice(implementation, GATED_IMPLEMENTATIONS, "implementation")
    if window % 2 == 0:
        raise ValueError(f"`window` must be odd. Received: window={window}")
    if encode is None:
        states, kernel = check_states(states, kernel)
    elif len(states.shape) != 3:
        raise ValueError(
            f"`states` must have shape (B, T, E) with `encode`. Received: {tuple(states.shape)}"
        )
    open_positions = as_boolean_mask(open_positions, "open_positions")
    is_static = needs_static_shapes(open_positions)
    if implementation == "gathered" and is_static:
        raise ValueError(
            "`implementation='gathered'` cannot run under XLA or in a traced JAX function, because "
            "the sizes of its tensors depend on the gates. Use 'auto' or 'reference' there."
        )
    if implementation == "reference" or is_static:
        if encode is not None:
            states = encode_sequence(states, encode, window)
        return soft_attention(states, kernel, open_positions, return_scores=return_scores)
    index = ops.nonzero(ops.reshape(open_positions, (-1,)))[0]  # (K,), ascending
    index = ops.cast(index, "int32")
    if encode is None:
        rows = ops.take(ops.reshape(states, (-1, states.shape[-1])), index, axis=0)
    else:
        rows = encode(_windows(states, index, window))[:, 0]
    return _gathered(rows, kernel, open_positions, index, return_scores)  # rows: (K, D)


def encode_sequence(inputs: Tensor, encode: Callable[[Tensor], Tensor], window: int) -> Tensor:
    """The states of all positions: (B, T, E) → (B, T, D); see `open_positions_attention`."""
    beyond = window // 2
    return encode(ops.pad(inputs, ((0, 0), (beyond, beyond), (0, 0))))


def _windows(inputs: Tensor, index: Tensor, window: int) -> Tensor:
    """The inputs around some positions of all B·T: (B, T, E) and (K,) → (K, window, E)."""
    length, width = ops.shape(inputs)[1:]
    offsets = ops.arange(window, dtype="int32") - window // 2
    index = ops.expand_dims(index, 1)  # (K, 1)
    position = index % length + offsets  # (K, window)
    is_inside = ops.logical_and(position >= 0, position < length)
    nearby = ops.where(is_inside, index + offsets, index)
    rows = ops.take(ops.reshape(inputs, (-1, width)), nearby, axis=0)
    return zero_masked(rows, ops.expand_dims(is_inside, -1))


def _gathered(
    rows: Tensor, kernel: Tensor, open_positions: Tensor, index: Tensor, return_scores: bool
) -> Tensor | tuple[Tensor, Tensor]:
    batch, length = ops.shape(open_positions)
    example = index // length
    scores = position_scores(rows, kernel)  # (K,)
    # A softmax per example: its maximum and sum, (B,), are taken to the rows, (K,).
    highest = ops.stop_gradient(ops.take(segment_max(scores, example, batch), example, axis=0))
    exponential = ops.exp(scores - highest)
    total = ops.take(segment_sum(exponential, example, batch), example, axis=0)
    weights = exponential / total
    products = ops.expand_dims(weights, 1) * ops.cast(rows, weights.dtype)
    output = ops.cast(segment_sum(products, example, batch), rows.dtype)  # (K, D) → (B, D)
    if not return_scores and not is_recording():
        return output
    size = batch * length
    # α as (B, T), with 0 at closed positions.
    spread = ops.scatter(ops.expand_dims(index, 1), ops.cast(weights, rows.dtype), (size,))
    spread = ops.reshape(spread, (batch, length))
    record("weights", spread, open_positions, "weights")
    return (output, spread) if return_scores else output
