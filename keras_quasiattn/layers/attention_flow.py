"""Bidirectional attention flow between a passage and a question."""

from typing import Any

import keras

from keras_quasiattn import ops
from keras_quasiattn.layers.shared.pair_attention import PairAttention, Shape, check_pair
from keras_quasiattn.ops.masking import zero_padding
from keras_quasiattn.ops.precision import project

Tensor = Any


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class AttentionFlow(PairAttention):
    """Adds question features to a passage, and what the question attends to in the passage.

    E_ts = w·[p_t; q_s; p_t ⊙ q_s];  p̃ = softmax over S of E, times Q;
    h = softmax over T of (max over S of E), times P;  output = [p; p̃; p ⊙ p̃; p ⊙ h]

    Masked positions get weight exactly 0, and masked rows of the passage are exactly 0 in the
    output. If the question is fully masked, p̃ and h are exactly 0. Values at masked positions, NaN
    included, have no effect. The output keeps the mask of the passage.

    Args:
        kernel_initializer: initializer of w.
        **kwargs: arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        inputs: [p, q] with p (B, T, features) and q (B, S, features).
        mask: [mask_p, mask_q], each None or boolean (or 0/1 integer) of shape (B, T) and (B, S),
            True = real. Defaults to the masks that Keras attached to the inputs.
        return_attention_scores: also return the weights of the softmax over S, (B, T, S).

    Returns:
        (B, T, 4·features), or that and the weights.

    Raises:
        ValueError: the inputs are not two tensors (B, length, features), or a mask holds floats.

    Example:
    >>> import numpy as np
    >>> from keras_quasiattn.layers import AttentionFlow
    >>> p, q = np.ones((2, 3, 8), "float32"), np.ones((2, 5, 8), "float32")
    >>> tuple(AttentionFlow()([p, q]).shape)
    (2, 3, 32)

    Source: Seo et al. 2017, "Bidirectional Attention Flow for Machine Comprehension", §2.4.
    """

    def __init__(self, *, kernel_initializer: Any = "glorot_uniform", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)

    def build(self, inputs_shape: list[Shape]) -> None:
        """Creates w."""
        check_pair(inputs_shape)
        width: int = inputs_shape[0][-1]  # type: ignore[assignment]
        self.kernel = self.add_weight(
            shape=(3 * width, 1), initializer=self.kernel_initializer, name="kernel"
        )

    def attend(
        self, a: Tensor, b: Tensor, mask_a: Tensor | None, mask_b: Tensor | None, **options: Any
    ) -> Any:
        """Returns the passage joined with the attended question and passage vectors."""
        of_a, of_b, of_both = keras.ops.split(keras.ops.convert_to_tensor(self.kernel), 3)
        # E as one matrix product: [p·w₁; 1; p ⊙ w₃]·[1; q·w₂; q]ᵀ, (B, T, D + 2)·(B, D + 2, S).
        one_a, one_b = keras.ops.ones_like(a[..., :1]), keras.ops.ones_like(b[..., :1])
        u = keras.ops.concatenate([project(a, of_a), one_a, a * of_both[:, 0]], axis=-1)
        v = keras.ops.concatenate([one_b, project(b, of_b), b], axis=-1)
        # p̃ (B, T, D), h (B, 1, D) and the weights (B, T, S)
        found, matters, weights = ops.attention_flow(u, v, a, b, mask_a, mask_b, return_scores=True)
        output = zero_padding(
            keras.ops.concatenate([a, found, a * found, a * matters], axis=-1), mask_a
        )
        return (output, weights) if options["return_scores"] else output

    def compute_mask(self, inputs: list[Tensor], mask: list[Tensor | None] | None = None) -> Any:
        """Returns the mask of the passage."""
        return None if mask is None else mask[0]

    def compute_output_shape(self, inputs_shape: list[Shape]) -> Any:
        """(B, T, 4·features)."""
        width: int = inputs_shape[0][-1]  # type: ignore[assignment]
        return (*inputs_shape[0][:-1], 4 * width)

    def get_config(self) -> dict[str, Any]:
        """Returns every constructor argument."""
        return {
            **super().get_config(),
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
        }
