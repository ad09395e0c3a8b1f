"""Compare two aligned sequences and summarize the comparison in a few numbers per position."""

from typing import Any

import keras
from keras import ops

from keras_quasiattn.attention.softmax import alignment_pair, softmax_attention
from keras_quasiattn.core.arguments import check_positive_integer
from keras_quasiattn.core.configured import clone_initializer
from keras_quasiattn.core.masks import zero_padding
from keras_quasiattn.core.tensors import as_dtype, check_choice, project
from keras_quasiattn.layers.base import Mask, PairAttention, Shape, check_pair
from keras_quasiattn.layers.factorization_machine import (
    FactorizationWeights,
    add_factorization_weights,
    factorization_machine,
    factors_initializer_of,
)

Tensor = Any
OPERATORS = ("product", "concatenation", "difference")


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class BidirectionalAttentionConnector(PairAttention):
    """Align two sequences with each other and compare each position with its match.

    X' = relu(relu(X·W₁)·W₂), and Y' from Y;  E = X'·Y'ᵀ/√w;  Ŷ = softmax over S of E, times Y;
    features of x_t = [FM₁(x_t ⊙ ŷ_t); FM₂([x_t; ŷ_t]); FM₃(x_t − ŷ_t)]

    The features of y_s are computed in the same way from X̂, which uses the softmax over T of E.
    Attention pools the sequences themselves, and both directions share the factorization machines
    FM. With `use_intra` each sequence is also aligned to itself, which gives three more features
    from a second set of machines. The output width does not depend on w, so layers can be connected
    densely.

    Masked positions, NaN included, have no effect and get weight exactly 0; their own features are
    0, and so are those of an alignment to a fully masked sequence. Each output keeps the mask of
    its input.

    Args:
        factors: length of the factor vectors of the factorization machines. Defaults to 32.
        use_intra: whether to align each sequence to itself as well.
        kernel_initializer: initializer of W₁ and W₂. Defaults to "glorot_uniform".
        factors_initializer: initializer of the factors. Defaults to a normal distribution with
            standard deviation 0.1.

    Call arguments:
        inputs: [x, y] with x (B, T, w) and y (B, S, w).
        mask: [mask_x, mask_y], boolean (B, T) and (B, S), or None. Defaults to Keras' masks.
        return_attention_scores: also return the weights, (B, T, S).

    Returns:
        [f_x, f_y] with f_x (B, T, 3) and f_y (B, S, 3), or 6 features instead of 3 with
        `use_intra`. With the weights: [f_x, f_y, W_x, W_y]; W_x's rows and W_y's columns sum to 1.

    Raises:
        ValueError: an argument out of range, inputs that are not two (B, length, w), a float mask.

    Example:
    >>> x, y = np.ones((2, 3, 8), "float32"), np.ones((2, 5, 8), "float32")
    >>> [tuple(output.shape) for output in BidirectionalAttentionConnector()([x, y])]
    [(2, 3, 3), (2, 5, 3)]

    Source: Tay et al. 2018, "Densely Connected Attention Propagation for Reading Comprehension",
    §2.1, following the authors' published code.
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
        self.use_intra = check_choice(use_intra, (False, True), "use_intra")
        self.factors = check_positive_integer(factors, "factors")
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.factors_initializer = factors_initializer_of(factors_initializer)

    def build(self, inputs_shape: list[Shape]) -> None:
        """Create W₁, W₂ and the weights of the factorization machines."""
        check_pair(inputs_shape)
        width: int = inputs_shape[0][-1]  # type: ignore[assignment]
        initializer = self.kernel_initializer
        self._kernels = [
            self.add_weight(
                (width, width), clone_initializer(initializer), name=f"projection_{number}"
            )
            for number in range(2)
        ]
        self._machines = [
            add_factorization_weights(
                self,
                2 * width if operator == "concatenation" else width,
                self.factors,
                clone_initializer(self.factors_initializer),
                f"{kind}{operator}_",
            )
            for kind in (("", "intra_") if self.use_intra else ("",))
            for operator in OPERATORS
        ]

    def attend(
        self, a: Tensor, b: Tensor, mask_a: Mask, mask_b: Mask, **options: Any
    ) -> list[Tensor]:
        """Return the features of both sequences, and the weights if they are requested."""
        kernels = [ops.convert_to_tensor(kernel) for kernel in self._kernels]
        machines = self._machines
        scale = as_dtype(a.shape[-1] ** -0.5, a.dtype)
        projected = [_project(x, kernels) for x in (a, b)]  # (B, T, w), (B, S, w)
        # Ŷ (B, T, w), X̂ (B, S, w), and both weight matrices (B, T, S)
        to_b, to_a, weights_b, weights_a = alignment_pair(
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
                keys = None if mask is None else ops.expand_dims(mask, -2)
                itself = softmax_attention(p * scale, p, x, keys)
                one.append(_features(x, itself, mask, x, mask, machines[3:]))
        joined = [one[0] if len(one) == 1 else ops.concatenate(one, axis=-1) for one in features]
        return [*joined, weights_b, weights_a] if options["return_scores"] else joined

    def compute_output_shape(self, inputs_shape: list[Shape]) -> Any:
        """Return (B, T, 3) and (B, S, 3), or 6 features instead of 3."""
        numbers = len(OPERATORS) * (2 if self.use_intra else 1)
        return [(*shape[:-1], numbers) for shape in inputs_shape]


def _project(x: Tensor, kernels: list[Tensor]) -> Tensor:
    for kernel in kernels:
        x = ops.relu(project(x, kernel))
    return x


def _features(
    x: Tensor,
    aligned: Tensor,
    mask: Mask,
    other: Tensor,
    other_mask: Mask,
    machines: list[FactorizationWeights],
) -> Tensor:
    """Return three features that compare x with what is aligned to it, 0 without a real pair."""
    # Cast to float32 first: the products could overflow float16.
    one, two = (ops.cast(z, machines[0].factors.dtype) for z in (x, aligned))
    made = (one * two, ops.concatenate([one, two], axis=-1), one - two)
    numbers = [
        factorization_machine(z, *machine) for z, machine in zip(made, machines, strict=True)
    ]
    found = ops.ones_like(other[..., 0], dtype="bool") if other_mask is None else other_mask
    found = ops.any(found, axis=-1, keepdims=True)  # (B, 1)
    shown = found if mask is None else ops.logical_and(found, mask)
    return zero_padding(ops.cast(ops.stack(numbers, axis=-1), x.dtype), shown)
