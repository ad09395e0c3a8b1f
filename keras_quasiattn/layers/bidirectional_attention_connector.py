"""What the alignment of two sequences says, as a few numbers a position."""

from typing import Any

import keras

from keras_quasiattn import ops
from keras_quasiattn.layers.factorization_machine import (
    FactorizationWeights,
    add_factorization_weights,
    factors_initializer_of,
)
from keras_quasiattn.layers.shared.arguments import check_positive_integer
from keras_quasiattn.layers.shared.pair_attention import PairAttention, Shape, check_pair
from keras_quasiattn.ops.checks import check_choice
from keras_quasiattn.ops.masking import zero_padding
from keras_quasiattn.ops.precision import as_dtype, project

Tensor = Any
OPERATORS = ("product", "concatenation", "difference")


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class BidirectionalAttentionConnector(PairAttention):
    """Connects two sequences: aligns each to the other and tells every position, in three numbers, how it compares.

    X', Y' = relu(relu(X·W₁)·W₂), likewise Y;  E = X'·Y'ᵀ/√w;  Ŷ = softmax over S of E, times Y;
    features of x_t = [FM₁(x_t ⊙ ŷ_t); FM₂([x_t; ŷ_t]); FM₃(x_t − ŷ_t)]

    and likewise y_s with X̂, which the softmax over T of E pools. The sequences are aligned themselves, not their
    projections, and the factorization machines FM serve both directions. With `use_intra` three more features come
    from the alignment of each sequence to itself, by machines of their own. The width of the sequences leaves no trace
    in the output, which is why layers can be connected densely.

    A masked position weighs exactly 0 for the other sequence, its own features are exactly 0, and nothing that stands
    there, NaN included, matters. Where nothing of the other sequence is real, the features of the alignment to it are
    exact zeros. Each output keeps the mask of its input.

    Args:
        factors: length of the factors of the factorization machines.
        use_intra: whether each sequence is aligned to itself, too.
        kernel_initializer: of W₁ and W₂.
        factors_initializer: of the factors. Default normal with the standard deviation 0.1.
        **kwargs: `name`, `dtype` and the like.

    Call arguments:
        inputs: [x, y] with x (B, T, w) and y (B, S, w).
        mask: [mask_x, mask_y], each None or boolean (or 0/1 integer) (B, T) and (B, S); default the masks that
            Keras attached to the inputs.
        training: whether this is a step of training.
        return_attention_scores: also return the weights, (B, T, S).

    Returns:
        [f_x, f_y] with f_x (B, T, 3) and f_y (B, S, 3), 6 in the place of 3 with `use_intra`. With the weights
        [f_x, f_y, W_x, W_y], of which the rows of W_x and the columns of W_y sum to 1.

    Raises:
        ValueError: an argument out of range, inputs that are not two (B, length, w), a float mask.

    Example:
    >>> import numpy as np
    >>> from keras_quasiattn.layers import BidirectionalAttentionConnector
    >>> x, y = np.ones((2, 3, 8), "float32"), np.ones((2, 5, 8), "float32")
    >>> [tuple(output.shape) for output in BidirectionalAttentionConnector()([x, y])]
    [(2, 3, 3), (2, 5, 3)]

    Source: Tay et al. 2018, "Densely Connected Attention Propagation for Reading Comprehension", §2.1, as its
    published code has it.
    """

    score_count = 2

    def __init__(
        self,
        factors: int = 32,
        *,
        use_intra: bool = False,
        kernel_initializer: Any = "glorot_uniform",
        factors_initializer: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_choice(use_intra, (False, True), "use_intra")
        self.factors, self.use_intra = check_positive_integer(factors, "factors"), use_intra
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.factors_initializer = factors_initializer_of(factors_initializer)

    def build(self, inputs_shape: list[Shape]) -> None:
        """Makes W₁, W₂ and the factorization machines."""
        check_pair(inputs_shape)
        width: int = inputs_shape[0][-1]  # type: ignore[assignment]
        self._kernels = [
            self.add_weight(
                shape=(width, width),
                initializer=self.kernel_initializer.clone(),
                name=f"projection_{number}",
            )
            for number in range(2)
        ]
        self._machines = [
            add_factorization_weights(
                self,
                2 * width if operator == "concatenation" else width,
                self.factors,
                self.factors_initializer.clone(),
                f"{kind}{operator}_",
            )
            for kind in (("", "intra_") if self.use_intra else ("",))
            for operator in OPERATORS
        ]

    def attend(
        self, a: Tensor, b: Tensor, mask_a: Tensor | None, mask_b: Tensor | None, **options: Any
    ) -> list[Tensor]:
        """The features of both, and the weights."""
        kernels = [keras.ops.convert_to_tensor(kernel) for kernel in self._kernels]
        machines = self._machines
        scale = as_dtype(a.shape[-1] ** -0.5, a.dtype)
        projected = [_project(x, kernels) for x in (a, b)]
        to_b, to_a, weights_b, weights_a = ops.alignment_pair(
            projected[0] * scale,
            projected[1],
            mask_a,
            mask_b,
            value_a=a,
            value_b=b,
            return_scores=True,
        )
        features = [
            [_features(a, to_b, mask_a, b, mask_b, machines[:3])],
            [_features(b, to_a, mask_b, a, mask_a, machines[:3])],
        ]
        if self.use_intra:
            for one, x, p, mask in zip(features, (a, b), projected, (mask_a, mask_b), strict=True):
                itself = ops.softmax_attention(
                    p * scale, p, x, None if mask is None else keras.ops.expand_dims(mask, -2)
                )
                one.append(_features(x, itself, mask, x, mask, machines[3:]))
        joined = [
            one[0] if len(one) == 1 else keras.ops.concatenate(one, axis=-1) for one in features
        ]
        return [*joined, weights_b, weights_a] if options["return_scores"] else joined

    def compute_output_shape(self, inputs_shape: list[Shape]) -> Any:
        """(B, T, 3) and (B, S, 3), or 6."""
        numbers = len(OPERATORS) * (2 if self.use_intra else 1)
        return [(*shape[:-1], numbers) for shape in inputs_shape]

    def get_config(self) -> dict[str, Any]:
        """Every constructor argument."""
        return {
            **super().get_config(),
            "factors": self.factors,
            "use_intra": self.use_intra,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "factors_initializer": keras.initializers.serialize(self.factors_initializer),
        }


def _project(x: Tensor, kernels: list[Tensor]) -> Tensor:
    for kernel in kernels:
        x = keras.ops.relu(project(x, kernel))
    return x


def _features(
    x: Tensor,
    aligned: Tensor,
    mask: Tensor | None,
    other: Tensor,
    other_mask: Tensor | None,
    machines: list[FactorizationWeights],
) -> Tensor:
    """(B, L, 3) of x and what is aligned with it; zeros where x is masked, or has nothing to be aligned with."""
    # float32 before the products, which would leave float16.
    one, two = (keras.ops.cast(z, machines[0].factors.dtype) for z in (x, aligned))
    made = (one * two, keras.ops.concatenate([one, two], axis=-1), one - two)
    numbers = [
        ops.factorization_machine(z, *machine) for z, machine in zip(made, machines, strict=True)
    ]
    found = keras.ops.ones_like(other[..., 0], dtype="bool") if other_mask is None else other_mask
    found = keras.ops.any(found, axis=-1, keepdims=True)
    shown = found if mask is None else keras.ops.logical_and(found, mask)
    return zero_padding(keras.ops.cast(keras.ops.stack(numbers, axis=-1), x.dtype), shown)
