"""Local attention: a window around a position predicted from the sequence's last state."""

from typing import Any

import keras
from keras import ops as keras_ops

from keras_quasiattn import ops
from keras_quasiattn.layers.shared.arguments import check_positive_integer
from keras_quasiattn.layers.shared.attention_pooling import AttentionPooling, Shape
from keras_quasiattn.layers.shared.dense import Dense

Tensor = Any


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class LocalAttention(AttentionPooling):
    """Pools the part of a sequence around a predicted position (local-p).

    p = S·sigmoid(vᵀ·tanh(W·h_last));  e_s = wᵀ·tanh(h_s);
    α_s = softmax(e)_s over |s − p| ≤ D, times exp(−(s − p)²/(2σ²)), σ = D/2;  r = Σ_s α_s·h_s

    S is the number of real positions. h_last is the state at the last of them; it stands in for the
    decoder state used in the paper. The scores are those of `SoftAttention`, so the two layers
    differ only in where they attend. Masked positions get weight exactly 0, and values there, NaN
    included, have no effect. A sequence with nothing to attend to gives exactly 0. The layer
    consumes the mask: its output has none.

    Args:
        window: D, number of positions on each side of p. Defaults to 10.
        final_tanh: whether the output is tanh(r). Defaults to False, as in `SoftAttention`.
        kernel_initializer: initializer of w, W and v. Defaults to "glorot_uniform".
        **kwargs: arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        inputs: (B, T, D), h.
        mask: boolean (or 0/1 integer) (B, T), True = real. Defaults to the mask Keras attached to
            `inputs`.
        return_attention_scores: also return α, which sums to less than 1.

    Returns:
        (B, D), or that and α (B, T).

    Raises:
        ValueError: the window is not a positive integer, the mask holds floats, or the inputs are
            not (B, T, D).

    Example:
    >>> import numpy as np
    >>> from keras_quasiattn.layers import LocalAttention
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
        """Creates w, W and v."""
        super().build(inputs_shape)
        width: Any = inputs_shape[-1]
        self.hidden = self._dense(width, "hidden", "tanh", inputs_shape)
        self.center = self._dense(1, "center", None, inputs_shape)

    def _dense(self, units: int, name: str, activation: Any, inputs_shape: Shape) -> Dense:
        dense = Dense(
            units,
            activation=activation,
            use_bias=False,
            kernel_initializer=self.kernel_initializer.clone(),
            dtype=self.dtype_policy,
            name=name,
        )
        dense.build((inputs_shape[0], inputs_shape[-1]))
        return dense

    def pool(self, states: Tensor, mask: Tensor | None, return_scores: bool) -> Any:
        """Applies local attention around the position predicted from the last real state."""
        last = self._last_state(states, mask)  # (B, D)
        # (B, 1). At least float32: p is a position, and 16 bits cannot resolve long texts.
        center = keras_ops.sigmoid(
            keras_ops.cast(self.center(self.hidden(last)), self._center_dtype)
        )
        return ops.local_attention(
            states,
            self.score_kernel,
            keras_ops.squeeze(center, 1),
            mask,
            window=self.window,
            return_scores=return_scores,
        )

    @property
    def _center_dtype(self) -> str:
        return "float64" if self.compute_dtype == "float64" else "float32"

    def _last_state(self, states: Tensor, mask: Tensor | None) -> Tensor:
        """Returns the state at the last real position, (B, D); zeros if there is none."""
        real = keras_ops.ones_like(states[..., 0], dtype="int32")
        if mask is not None:
            real = keras_ops.cast(mask, "int32")
        total = keras_ops.sum(real, axis=1, keepdims=True)  # (B, 1)
        # (B, T). A masked sum instead of an index, which would fail for a sequence of length 0.
        is_last = keras_ops.logical_and(
            real > 0, keras_ops.equal(keras_ops.cumsum(real, axis=1), total)
        )
        return keras_ops.einsum("bt,btd->bd", keras_ops.cast(is_last, states.dtype), states)

    def get_config(self) -> dict[str, Any]:
        """Returns every constructor argument."""
        return {**super().get_config(), "window": self.window}
