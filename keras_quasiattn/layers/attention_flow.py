"""Attention in both directions between a passage and a question (BiDAF)."""

from typing import Any

import keras
from keras import ops

from keras_quasiattn.attention.softmax import attend
from keras_quasiattn.core.masks import (
    LOWEST,
    combine_masks,
    largest,
    lower_masked,
    pair_mask,
    sides,
    zero_masked,
    zero_padding,
)
from keras_quasiattn.core.tensors import check_features, dot_products, project
from keras_quasiattn.layers.base import Mask, PairAttention, Shape, check_pair

Tensor = Any


def attention_flow(
    u: Tensor,
    v: Tensor,
    values_u: Tensor,
    values_v: Tensor,
    mask_u: Tensor | None = None,
    mask_v: Tensor | None = None,
    return_scores: bool = False,
) -> tuple[Tensor, ...]:
    """Attend from each position of u to v, and pool the positions of u that match v best.

    E = u · vᵀ;  ũ = softmax over S of E, times values_v;
    h = softmax over T of (max over S of E), times values_u

    A masked position has weight exactly 0 and its content has no effect; its row of ũ is 0. If
    either sequence has no real position, ũ and h are 0. Weights are float32 for 16-bit inputs.

    Args:
        u: (..., T, D), the passage, already projected.
        v: (..., S, D), the question, already projected.
        values_u: (..., T, V).
        values_v: (..., S, W).
        mask_u: boolean (or 0/1 integer) (..., T), True = real.
        mask_v: boolean (or 0/1 integer) (..., S), True = real.
        return_scores: also return the weights over v.

    Returns:
        (ũ, h) of shapes (..., T, W) and (..., 1, V), or (ũ, h, weights) with weights (..., T, S).

    Raises:
        ValueError: a float mask, a rank below 2, or lengths or feature counts that do not match.

    Example:
    >>> u, v = np.ones((2, 3, 8), "float32"), np.ones((2, 5, 8), "float32")
    >>> [tuple(x.shape) for x in attention_flow(u, v, u, v)]
    [(2, 3, 8), (2, 1, 8)]

    Source: Seo et al. 2017, "Bidirectional Attention Flow for Machine Comprehension", §2.4.
    """
    mask_u, u, values_u = sides("u", u, "mask_u", mask_u, values_u=values_u)
    mask_v, v, values_v = sides("v", v, "mask_v", mask_v, values_v=values_v)
    check_features(u, v, "u", "v")
    products = dot_products(u, v)  # (..., T, S)
    both = pair_mask(mask_u, mask_v)
    best = largest(lower_masked(products, both), axis=-1, lowest=LOWEST)  # (..., T)
    # (..., 1): whether v has a real position at all.
    real = ops.ones_like(v[..., 0], dtype="bool") if mask_v is None else mask_v
    real = ops.any(real, axis=-1, keepdims=True)
    rows = combine_masks(ops.broadcast_to(real, ops.shape(best)), mask_u)
    best = zero_masked(best, rows)
    # Pooled with one row of scores, (..., 1, T): (..., 1, V).
    best, rows = (ops.expand_dims(x, -2) for x in (best, rows))
    matters = attend(best, values_u, rows, name="weights_best")
    found, weights = attend(products, values_v, both, return_scores=True)
    return (found, matters, weights) if return_scores else (found, matters)


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class AttentionFlow(PairAttention):
    """Add to a passage its match in the question, and what the question attends to in it.

    E_ts = w·[p_t; q_s; p_t ⊙ q_s];  p̃ = softmax over S of E, times Q;
    h = softmax over T of (max over S of E), times P;  output = [p; p̃; p ⊙ p̃; p ⊙ h]

    Masked positions, NaN included, have no effect and get weight exactly 0. Masked rows of the
    passage are 0 in the output, and so are p̃ and h if the question is fully masked. The output
    keeps the mask of the passage.

    Args:
        kernel_initializer: initializer of w. Defaults to "glorot_uniform".

    Call arguments:
        inputs: [p, q] with p (B, T, features) and q (B, S, features).
        mask: [mask_p, mask_q], boolean (B, T) and (B, S), or None. Defaults to Keras' masks.
        return_attention_scores: also return the weights of the softmax over S, (B, T, S).

    Returns:
        (B, T, 4·features), or that and the weights.

    Raises:
        ValueError: the inputs are not two tensors (B, length, features), or a mask holds floats.

    Example:
    >>> p, q = np.ones((2, 3, 8), "float32"), np.ones((2, 5, 8), "float32")
    >>> tuple(AttentionFlow()([p, q]).shape)
    (2, 3, 32)

    Source: Seo et al. 2017, "Bidirectional Attention Flow for Machine Comprehension", §2.4.
    """

    one_output = True

    def __init__(self, *, kernel_initializer: Any = "glorot_uniform", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)

    def build(self, inputs_shape: list[Shape]) -> None:
        """Create w."""
        check_pair(inputs_shape)
        width: int = inputs_shape[0][-1]  # type: ignore[assignment]
        shape = (3 * width, 1)
        self.kernel = self.add_weight(shape, self.kernel_initializer, name="kernel")

    def attend(self, a: Tensor, b: Tensor, mask_a: Mask, mask_b: Mask, **options: Any) -> Any:
        """Return the passage joined with the attended question and passage vectors."""
        of_a, of_b, of_both = ops.split(ops.convert_to_tensor(self.kernel), 3)
        # E as one matrix product: [p·w₁; 1; p ⊙ w₃]·[1; q·w₂; q]ᵀ, (B, T, D + 2)·(B, D + 2, S).
        one_a, one_b = ops.ones_like(a[..., :1]), ops.ones_like(b[..., :1])
        u = ops.concatenate([project(a, of_a), one_a, a * of_both[:, 0]], axis=-1)
        v = ops.concatenate([one_b, project(b, of_b), b], axis=-1)
        # p̃ (B, T, D), h (B, 1, D) and the weights (B, T, S)
        found, matters, weights = attention_flow(u, v, a, b, mask_a, mask_b, return_scores=True)
        output = zero_padding(ops.concatenate([a, found, a * found, a * matters], axis=-1), mask_a)
        return (output, weights) if options["return_scores"] else output

    def compute_output_shape(self, inputs_shape: list[Shape]) -> Any:
        """Return (B, T, 4·features)."""
        width: int = inputs_shape[0][-1]  # type: ignore[assignment]
        return (*inputs_shape[0][:-1], 4 * width)
