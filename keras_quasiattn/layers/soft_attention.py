"""Soft attention over a sequence's own states."""

from typing import Any

import keras

from keras_quasiattn import ops
from keras_quasiattn.layers.shared.attention_pooling import AttentionPooling

Tensor = Any


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class SoftAttention(AttentionPooling):
    """Pools a sequence to a mean of its states, weighted by a softmax of scores of the states.

    e_t = wᵀ·tanh(h_t);  α = softmax(e);  r = Σ_t α_t·h_t

    A masked position has a weight of exactly 0, and nothing stored there, NaN included, affects the
    output. A sequence with nothing to attend to gives exact zeros. The output carries no mask.

    Args:
        final_tanh: whether the output is tanh(r), as in Zhou et al. (eq. 12). By default it is r,
            as in eq. 1 of the GA-Net paper; that paper's gated attention with all gates open is
            then this layer.
        kernel_initializer: initializer of w. Defaults to "glorot_uniform".
        **kwargs: `name`, `dtype` and the like.

    Call arguments:
        inputs: (B, T, D), h.
        mask: boolean (or 0/1 integer) (B, T), True = real position. Defaults to the mask Keras
            attached to `inputs`.
        return_attention_scores: whether to return α, too.

    Returns:
        (B, D); with `return_attention_scores`, a tuple of that and α (B, T).

    Raises:
        ValueError: a float mask, or inputs that are not (B, T, D).

    Example:
    >>> import numpy as np
    >>> from keras_quasiattn.layers import SoftAttention
    >>> h = np.ones((2, 4, 8), "float32")
    >>> output, weights = SoftAttention()(h, return_attention_scores=True)
    >>> tuple(output.shape), np.asarray(weights)[0].tolist()
    ((2, 8), [0.25, 0.25, 0.25, 0.25])

    Source: Zhou et al. 2016, "Attention-Based Bidirectional Long Short-Term Memory Networks",
    eqs. 9–12.
    """

    def __init__(
        self, *, final_tanh: bool = False, kernel_initializer: Any = "glorot_uniform", **kwargs: Any
    ) -> None:
        super().__init__(final_tanh=final_tanh, kernel_initializer=kernel_initializer, **kwargs)

    def pool(self, states: Tensor, mask: Tensor | None, return_scores: bool) -> Any:
        """Pools all real positions by soft attention."""
        return ops.soft_attention(states, self.score_kernel, mask, return_scores=return_scores)
