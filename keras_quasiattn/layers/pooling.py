"""Attention that pools a sequence into one vector: all of it, with gates, or within a window."""

import math
from typing import Any

import keras
from keras import ops

from keras_quasiattn.attention.gated import gated_softmax
from keras_quasiattn.core.arguments import (
    check,
    check_positive_integer,
    check_sequence,
    check_shape,
)
from keras_quasiattn.core.backend import maximum, tanh
from keras_quasiattn.core.masks import (
    combine_masks,
    for_all_positions,
    largest,
    masked_mean,
    masked_softmax,
    sequence_mask,
    sides,
    zero_masked,
    zero_padding,
)
from keras_quasiattn.core.recording import record
from keras_quasiattn.core.tensors import (
    as_dtype,
    as_floats,
    check_broadcast,
    check_choice,
    check_rank,
    compute_dtype,
    project,
    weighted_sum,
)
from keras_quasiattn.layers.base import Mask, SequenceLayer, Shape
from keras_quasiattn.layers.dense import make_dense

Tensor = Any
MODES = ("mean", "sum", "max")


def position_scores(states: Tensor, kernel: Tensor) -> Tensor:
    """Return e_t = kernelᵀ·tanh(h_t), (...), from (..., D) and (D,), in float32 or float64."""
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
    """Pool a sequence with weights computed from its own states.

    e_t = kernelᵀ·tanh(h_t);  α = softmax(e) over the positions that `mask` shows;  r = Σ_t α_t·h_t

    With gates, α is `ops.gated_softmax` of e. A masked position has weight exactly 0 and its
    content has no effect; a fully masked sequence gives 0. Weights are float32 for 16-bit inputs.

    Args:
        states: (B, T, D), h.
        kernel: (D,).
        mask: boolean (B, T), True = real.
        gates: (B, T) in [0, 1]; default: all open.
        return_scores: also return α.

    Returns:
        r (B, D) in the dtype of `states`, or (r, α) with α (B, T).

    Raises:
        ValueError: a float mask, or sizes that do not match.

    Example:
    >>> h = np.array([[[1.0], [3.0], [9.0]]], "float32")
    >>> np.asarray(soft_attention(h, np.zeros(1, "float32"), np.array([[1, 1, 0]]))).tolist()
    [[2.0]]

    Source: Zhou et al. 2016, "Attention-Based Bidirectional LSTM", eqs. 9–11; gates: Xue et al.
    2019, eqs. 3 and 9.
    """
    states, kernel = check_states(states, kernel)
    mask, states = sides("states", states, "mask", mask)
    scores = position_scores(states, kernel)  # (B, T)
    if gates is not None:
        gates = ops.convert_to_tensor(gates)
        check_broadcast(gates, scores.shape, "gates", "the positions of `states`")
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
    """Pool the part of a sequence around a given position of each example.

    p = S·center;  α_s = softmax(e)_s over real positions s with |s − p| ≤ D, times
    exp(−(s − p)²/(2σ²)), σ = D/2;  r = Σ_s α_s·h_s

    D is the window and e the scores of `ops.soft_attention`. As in the source, α is not normalized
    again after the Gaussian. S and s count real positions only, so padding has no effect anywhere.
    A sequence without real positions gives all zeros.

    Args:
        states: (B, T, D).
        kernel: (D,).
        center: (B,), the centre of the window, as a fraction of the length between 0 and 1.
        mask: boolean (B, T), True = real.
        window: D, the number of positions on each side. Defaults to 10.
        return_scores: also return α.

    Returns:
        r (B, D) in the dtype of `states`, or (r, α) with α (B, T).

    Raises:
        ValueError: a float mask, sizes that do not match, or a window that is not above 0.

    Example:
    >>> h = np.ones((1, 7, 2), "float32")
    >>> _, weights = local_attention(
    ...     h, np.ones(2, "float32"), np.array([0.5]), window=1, return_scores=True
    ... )
    >>> np.asarray(weights, "float64")[0].round(3).tolist()  # p = 3.5
    [0.0, 0.0, 0.0, 0.303, 0.303, 0.0, 0.0]

    Source: Luong et al. 2015, "Effective Approaches to Attention-based NMT", §3.2 (local-p); Xue
    et al. 2019.
    """
    states, kernel = check_states(states, kernel)
    mask, states = sides("states", states, "mask", mask)
    check(window > 0, window, "window", "above 0")
    scores = position_scores(states, kernel)
    real = ops.ones_like(scores, dtype="bool") if mask is None else for_all_positions(mask, states)
    # count (B, T): real positions up to and including each; length (B,): S; position (B, 1): p.
    count = ops.cumsum(ops.cast(real, scores.dtype), axis=1)
    length = ops.sum(ops.cast(real, scores.dtype), axis=1)
    center = as_dtype(center, scores.dtype)
    check_broadcast(center, length.shape, "center", "the batch")
    position = ops.expand_dims(center * length, 1)
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
    """Return both as tensors; raise a `ValueError` unless they are (B, T, D) and (D,)."""
    states, kernel = as_floats(states), ops.convert_to_tensor(kernel)
    check_rank(states, "states")
    if len(states.shape) != 3 or tuple(kernel.shape) != (states.shape[-1],):
        raise ValueError(
            "`states` must have shape (B, T, D) and `kernel` (D,). "
            f"Received states.shape={tuple(states.shape)} and kernel.shape={tuple(kernel.shape)}."
        )
    return states, kernel


class Pooling(SequenceLayer):
    """Turn a sequence (B, T, D) into one vector (B, D), without a mask."""

    def compute_mask(self, inputs: Tensor, mask: Tensor | None = None) -> None:
        """Return None: the output has no positions to mask."""
        return None

    def compute_output_shape(self, inputs_shape: Shape) -> Shape:
        """Return (B, D)."""
        return (inputs_shape[0], inputs_shape[-1])


class AttentionPooling(Pooling):
    """Pool (B, T, D) to (B, D) with the scores e_t = wᵀ·tanh(h_t); subclasses implement `pool`."""

    def __init__(
        self, *, final_tanh: bool = False, kernel_initializer: Any = "glorot_uniform", **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.final_tanh = check_choice(final_tanh, (False, True), "final_tanh")
        self.kernel_initializer = keras.initializers.get(kernel_initializer)

    def pool(self, states: Tensor, mask: Mask, return_scores: bool) -> Any:
        """Return the pooled states (B, D), or those and the weights (B, T)."""
        raise NotImplementedError

    def build(self, inputs_shape: Shape) -> None:
        """Create w; raise a `ValueError` unless the inputs are (B, T, D)."""
        width = check_sequence(inputs_shape, "inputs")
        # No autocast: scores are computed in float32 or higher precision under every policy.
        self.kernel = self.add_weight(
            (width, 1), self.kernel_initializer, autocast=False, name="kernel"
        )

    def call(
        self, inputs: Tensor, mask: Tensor | None = None, return_attention_scores: bool = False
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Pool `inputs` (B, T, D); see the class."""
        result = self.pool(*self.masked(inputs, mask), return_attention_scores)
        # (B, D) and (B, T)
        context, weights = result if return_attention_scores else (result, None)
        context = self.finish(context)
        return (context, weights) if return_attention_scores else context

    @property
    def score_kernel(self) -> Tensor:
        """w, (D,)."""
        return ops.squeeze(ops.convert_to_tensor(self.kernel), 1)  # (D, 1) to (D,)

    def finish(self, context: Tensor) -> Tensor:
        """Turn the pooled states into the layer's output."""
        return tanh(context) if self.final_tanh else context


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class SoftAttention(AttentionPooling):
    """Pool a sequence to a mean of its states, weighted by a softmax of their scores.

    e_t = wᵀ·tanh(h_t);  α = softmax(e);  r = Σ_t α_t·h_t

    Masked positions, NaN included, have no effect and get weight exactly 0. A sequence with nothing
    to attend to gives 0. The output carries no mask.

    Args:
        final_tanh: whether the output is tanh(r), as in Zhou et al. (eq. 12). By default it is r,
            as in eq. 1 of the GA-Net paper; this layer then equals that paper's gated attention
            with all gates open.
        kernel_initializer: initializer of w. Defaults to "glorot_uniform".

    Call arguments:
        inputs: (B, T, D), h.
        mask: boolean (B, T), True = real. Defaults to Keras' mask.
        return_attention_scores: also return α.

    Returns:
        (B, D); with `return_attention_scores`, a tuple of that and α (B, T).

    Raises:
        ValueError: a float mask, or inputs that are not (B, T, D).

    Example:
    >>> h = np.ones((2, 4, 8), "float32")
    >>> output, weights = SoftAttention()(h, return_attention_scores=True)
    >>> tuple(output.shape), np.asarray(weights)[0].tolist()
    ((2, 8), [0.25, 0.25, 0.25, 0.25])

    Source: Zhou et al. 2016, "Attention-Based Bidirectional Long Short-Term Memory Networks",
    eqs. 9–12.
    """

    def pool(self, states: Tensor, mask: Mask, return_scores: bool) -> Any:
        """Pool all real positions by soft attention."""
        return soft_attention(states, self.score_kernel, mask, return_scores=return_scores)


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class LocalAttention(AttentionPooling):
    """Pool the part of a sequence around a predicted position (local-p).

    p = S·sigmoid(vᵀ·tanh(W·h_last));  e_s = wᵀ·tanh(h_s);
    α_s = softmax(e)_s over |s − p| ≤ D, times exp(−(s − p)²/(2σ²)), σ = D/2;  r = Σ_s α_s·h_s

    S is the number of real positions. h_last is the state at the last of them; the paper uses a
    decoder state in its place. Scores and masks are as in `SoftAttention`.

    Args:
        window: D, number of positions on each side of p. Defaults to 10.
        final_tanh: whether the output is tanh(r). Defaults to False, as in `SoftAttention`.
        kernel_initializer: initializer of w, W and v. Defaults to "glorot_uniform".

    Call arguments:
        inputs: (B, T, D), h.
        mask: boolean (B, T), True = real. Defaults to Keras' mask.
        return_attention_scores: also return α, which sums to less than 1.

    Returns:
        (B, D), or that and α (B, T).

    Raises:
        ValueError: a window below 1, a float mask, or inputs that are not (B, T, D).

    Example:
    >>> h = np.ones((2, 50, 8), "float32")
    >>> output, weights = LocalAttention(window=3)(h, return_attention_scores=True)
    >>> tuple(output.shape), int((np.asarray(weights)[0] > 0).sum()) <= 7
    ((2, 8), True)

    Source: Luong et al. 2015, §3.2 (local-p), as Xue et al. 2019 use it for classification.
    """

    def __init__(
        self,
        window: int = 10,
        *,
        final_tanh: bool = False,
        kernel_initializer: Any = "glorot_uniform",
        **kwargs: Any,
    ) -> None:
        super().__init__(final_tanh=final_tanh, kernel_initializer=kernel_initializer, **kwargs)
        self.window = check_positive_integer(window, "window")

    def build(self, inputs_shape: Shape) -> None:
        """Create w, W and v."""
        super().build(inputs_shape)
        width: Any = inputs_shape[-1]
        inputs, options = (inputs_shape[0], width), {"use_bias": False}
        self.hidden = make_dense(self, "hidden", width, inputs, activation="tanh", **options)
        self.center = make_dense(self, "center", 1, inputs, **options)

    def pool(self, states: Tensor, mask: Mask, return_scores: bool) -> Any:
        """Apply local attention around the position predicted from the last real state."""
        last = self._last_state(states, mask)  # (B, D)
        # (B, 1). At least float32: p is a position, and 16 bits cannot resolve long texts.
        center = self.center(self.hidden(last))
        center = ops.sigmoid(ops.cast(center, compute_dtype(center)))
        return local_attention(
            states,
            self.score_kernel,
            ops.squeeze(center, 1),
            mask,
            window=self.window,
            return_scores=return_scores,
        )

    def _last_state(self, states: Tensor, mask: Mask) -> Tensor:
        """Return the state at the last real position, (B, D); zeros if there is none."""
        real = ops.ones_like(states[..., 0], dtype="int32")
        if mask is not None:
            real = ops.cast(mask, "int32")
        total = ops.sum(real, axis=1, keepdims=True)  # (B, 1)
        # (B, T). A masked sum instead of an index, which would fail for a sequence of length 0.
        is_last = ops.logical_and(real > 0, ops.equal(ops.cumsum(real, axis=1), total))
        return ops.einsum("bt,btd->bd", ops.cast(is_last, states.dtype), states)


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class MaskedPooling(Pooling):
    """Pool a sequence over its real positions; a sequence with none gives zeros, not NaN.

    mean: Σ_l mask[l]·x[l] / Σ_l mask[l];  sum: Σ_l mask[l]·x[l];
    max: the largest x[l] with mask[l]

    For 16-bit inputs, sums and means are computed in float32. The output carries no mask.

    Args:
        mode: "mean", "sum" or "max". Defaults to "mean".

    Call arguments:
        inputs: (B, L, features).
        mask: boolean (B, L), True = real. Defaults to Keras' mask.

    Returns:
        (B, features).

    Raises:
        ValueError: an unknown mode, a float mask, or inputs that are not (B, L, features).

    Example:
    >>> x = np.array([[[1.0], [3.0], [100.0]]], "float32")
    >>> np.asarray(MaskedPooling()(x, mask=np.array([[True, True, False]]))).tolist()
    [[2.0]]
    """

    def __init__(self, mode: str = "mean", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.mode = check_choice(mode, MODES, "mode")

    def build(self, inputs_shape: Shape) -> None:
        """Check the shape of the inputs; there are no weights."""
        expected = "shape (batch, length, features)"
        check_shape(len(inputs_shape) == 3, inputs_shape, "inputs", expected)

    def call(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        """Pool `inputs` (B, L, features) to (B, features)."""
        mask = sequence_mask(mask, "mask", inputs)
        inputs = ops.cast(inputs, self.compute_dtype)  # Keras does not cast integers
        if self.mode == "max":
            return self._maximum(inputs, mask)
        precise = ops.cast(inputs, compute_dtype(inputs))
        if self.mode == "sum":
            pooled = ops.sum(zero_padding(precise, mask), axis=1)  # (B, features)
        else:
            positions = None if mask is None else ops.expand_dims(mask, -1)  # (B, L, 1)
            pooled = ops.squeeze(masked_mean(precise, positions, axis=1), 1)  # (B, features)
        return ops.cast(pooled, inputs.dtype)

    def _maximum(self, inputs: Tensor, mask: Mask) -> Tensor:
        real = ops.ones_like(inputs[..., :1], dtype="bool")  # (B, L, 1)
        if mask is not None:
            real = ops.logical_and(real, ops.expand_dims(mask, -1))
        pooled = largest(  # (B, features)
            ops.where(real, inputs, ops.cast(-math.inf, inputs.dtype)), 1, lowest=-math.inf
        )
        # (B, 1): 0 for a sequence without real positions. `zero_masked` would fail here: tf2onnx
        # turns it into a product, and 0 · −∞ is NaN.
        lowest = ops.cast(-math.inf, inputs.dtype)
        floor = ops.where(ops.any(real, axis=1), lowest, ops.cast(0, inputs.dtype))
        return maximum(pooled, floor)
