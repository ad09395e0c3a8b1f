"""Attention of one sequence to what matches it in another, and to what contrasts with it."""

from typing import Any

import keras

from keras_quasiattn.attention.conflict import DEFAULT_DIFFERENCE, DIFFERENCES, conflict_attention
from keras_quasiattn.attention.softmax import attend
from keras_quasiattn.core.arguments import check_sequence
from keras_quasiattn.core.masks import prepare_cross_attention
from keras_quasiattn.core.tensors import check_choice, dot_products
from keras_quasiattn.layers.base import Mask, OneWayAttention, Shape

Tensor = Any


def alignment_attention(
    u: Tensor, v: Tensor, values: Tensor, mask_v: Tensor | None = None, return_scores: bool = False
) -> Tensor | tuple[Tensor, Tensor]:
    """Sum the values of one sequence for every position of the other, weighted by their match.

    a = u · vᵀ;  w = softmax(a) over the positions that `mask_v` shows;  output = w · values

    Scores are not scaled, as in the paper. A masked position has weight exactly 0 and no effect; if
    all are masked, the output is 0. Weights are float32 for 16-bit inputs.

    Args:
        u: (..., T, D), already projected.
        v: (..., S, D), already projected.
        values: (..., S, V).
        mask_v: boolean (or 0/1 integer) (..., S), True = real.
        return_scores: also return w.

    Returns:
        output (..., T, V) in the dtype of `values`, or (output, w) with w (..., T, S).

    Raises:
        ValueError: a float mask, a rank below 2, or lengths or feature counts that do not match.

    Example:
    >>> u, v, mask = np.eye(2)[None], 9 * np.eye(3, 2)[None], np.array([[1, 1, 0]])
    >>> _, weights = alignment_attention(u, v, v, mask, return_scores=True)
    >>> np.asarray(weights).round(2).tolist()
    [[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]]

    Source: Mitra 2019, "Conflict as an Inverse of Attention in Sequence Relationship", eqs. 2–4.
    """
    u, v, values, mask = prepare_cross_attention(u, v, values, mask_v)
    return attend(dot_products(u, v), values, mask, return_scores=return_scores)


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class AlignmentAttention(OneWayAttention):
    """Sum, for every position of u, the positions of v weighted by how well they match it.

    a = tanh(u·W_u)·tanh(v·W_v)ᵀ;  w = softmax(a);  output = w·v

    Masked positions, NaN included, have no effect: those of v get weight exactly 0, and the output
    is 0 in masked rows of u, or everywhere if v is fully masked. It keeps the mask of u.

    Args:
        units: size of the projections. Defaults to the number of features of u.

    Call arguments:
        inputs: [u, v] with u (B, T, features) and v (B, S, features); the numbers of features may
            differ.
        mask: [mask_u, mask_v], boolean (B, T) and (B, S), or None. Defaults to Keras' masks.
        return_attention_scores: also return w, (B, T, S).

    Returns:
        (B, T, features of v), or that and w.

    Raises:
        ValueError: the inputs are not two tensors (B, length, features), or a mask holds floats.

    Example:
    >>> u, v = np.ones((2, 3, 8), "float32"), np.ones((2, 5, 4), "float32")
    >>> tuple(AlignmentAttention(units=6)([u, v]).shape)
    (2, 3, 4)

    Source: Mitra 2019, "Conflict as an Inverse of Attention in Sequence Relationship", eqs. 1–4.
    """

    def weigh(self, u: Tensor, v: Tensor, values: Tensor, mask_v: Mask, return_scores: bool) -> Any:
        """Apply a softmax over v to the dot products."""
        return alignment_attention(u, v, values, mask_v, return_scores=return_scores)


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class ConflictAttention(OneWayAttention):
    """Sum, for every position of u, the positions of v weighted by how much they contrast with it.

    a[i, j] = W_s·|tanh(u_i·W_u) − tanh(v_j·W_v)|;  w = softmax(a);  output = w·v

    `difference="signed"` is the form without the absolute value, which the paper prints. It is
    degenerate: the term of u_i cancels in the softmax. Every position of u then gets the same
    weights, and W_u learns nothing. Masks act as in `layers.AlignmentAttention`.

    Args:
        units: size of the projections. Defaults to the number of features of u.
        difference: "absolute" (the default), "signed" (as printed) or "squared".

    Call arguments:
        inputs: [u, v] with u (B, T, features) and v (B, S, features); the numbers of features may
            differ.
        mask: [mask_u, mask_v], boolean (B, T) and (B, S), or None. Defaults to Keras' masks.
        return_attention_scores: also return w, (B, T, S).

    Returns:
        (B, T, features of v), or that and w.

    Raises:
        ValueError: the difference is unknown, the inputs are not two tensors (B, length, features),
            or a mask holds floats.

    Example:
    >>> u, v = np.ones((2, 3, 8), "float32"), np.ones((2, 5, 4), "float32")
    >>> tuple(ConflictAttention(units=6)([u, v]).shape)
    (2, 3, 4)

    Source: Mitra 2019, "Conflict as an Inverse of Attention in Sequence Relationship", eqs. 7–9.
    """

    def __init__(
        self, units: int | None = None, *, difference: str = DEFAULT_DIFFERENCE, **kwargs: Any
    ) -> None:
        super().__init__(units, **kwargs)
        self.difference = check_choice(difference, DIFFERENCES, "difference")

    def build(self, inputs_shape: list[Shape]) -> None:
        """Create the projections and W_s."""
        super().build(inputs_shape)
        # No autocast: scores are computed in float32 or higher precision under every policy.
        shape = (self.u_projection.units, 1)
        self.score_kernel = self.add_weight(
            shape, "glorot_uniform", autocast=False, name="score_kernel"
        )

    def weigh(self, u: Tensor, v: Tensor, values: Tensor, mask_v: Mask, return_scores: bool) -> Any:
        """Apply a softmax over v to the weighted differences."""
        kernel = keras.ops.squeeze(keras.ops.convert_to_tensor(self.score_kernel), 1)  # (units,)
        return conflict_attention(
            u, v, kernel, values, mask_v, difference=self.difference, return_scores=return_scores
        )


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class AttentionConflict(OneWayAttention):
    """Concatenate every position of u with what matches it in v and what contrasts with it.

    output = [u; v^A; v^C], v^A from `layers.AlignmentAttention` and v^C from
    `layers.ConflictAttention`

    Each of the two has its own projections and treats masks as that layer does; if v is fully
    masked, v^A and v^C are 0 and only u remains.

    Args:
        units: size of the projections. Defaults to the number of features of u.
        difference: as in `layers.ConflictAttention`.

    Call arguments:
        inputs: [u, v] with u (B, T, features) and v (B, S, features); the numbers of features may
            differ.
        mask: [mask_u, mask_v], boolean (B, T) and (B, S), or None. Defaults to Keras' masks.
        return_attention_scores: also return the weights of both, each (B, T, S).

    Returns:
        (B, T, features of u + 2·features of v), or that, the alignment weights and the conflict
        weights.

    Raises:
        ValueError: the difference is unknown, the inputs are not two tensors (B, length, features),
            or a mask holds floats.

    Example:
    >>> u, v = np.ones((2, 3, 8), "float32"), np.ones((2, 5, 4), "float32")
    >>> tuple(AttentionConflict(units=6)([u, v]).shape)
    (2, 3, 16)

    Source: Mitra 2019, "Conflict as an Inverse of Attention in Sequence Relationship", eq. 11.
    """

    score_count = 2

    def __init__(
        self, units: int | None = None, *, difference: str = DEFAULT_DIFFERENCE, **kwargs: Any
    ) -> None:
        super().__init__(units, **kwargs)
        self.difference = difference
        self.alignment = AlignmentAttention(units, dtype=self.dtype_policy, name="alignment")
        self.conflict = ConflictAttention(
            units, difference=difference, dtype=self.dtype_policy, name="conflict"
        )

    def build(self, inputs_shape: list[Shape]) -> None:
        """Build both attention layers."""
        self.alignment.build(inputs_shape)
        self.conflict.build(inputs_shape)

    def attend(self, a: Tensor, b: Tensor, mask_a: Mask, mask_b: Mask, **options: Any) -> Any:
        """Return [u; v^A; v^C], and both weight matrices if they are requested."""
        scored = options["return_scores"]
        results = [
            layer([a, b], mask=[mask_a, mask_b], return_attention_scores=scored)
            for layer in (self.alignment, self.conflict)
        ]
        if not scored:
            return keras.ops.concatenate([a, *results], axis=-1)  # (B, T, U + 2·V)
        outputs, weights = zip(*results, strict=True)
        return (keras.ops.concatenate([a, *outputs], axis=-1), *weights)

    def compute_output_shape(self, inputs_shape: list[Shape]) -> Any:
        """Return (B, T, features of u + 2·features of v)."""
        u, v = (check_sequence(shape, f"inputs[{i}]") for i, shape in enumerate(inputs_shape))
        return (*inputs_shape[0][:-1], u + 2 * v)
