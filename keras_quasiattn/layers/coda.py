"""Compositional de-attention (CoDA) between two sequences."""

from typing import Any, cast

import keras

from keras_quasiattn.attention.base import ShowsOptions
from keras_quasiattn.attention.coda.attention import CoDAOptions, Factor
from keras_quasiattn.core.arguments import check_activation, check_positive_integer
from keras_quasiattn.layers.base import Mask, PairAttention, Shape, check_pair
from keras_quasiattn.layers.dense import Dense, make_dense

Tensor = Any


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class CoDA(ShowsOptions, PairAttention):
    """Align two sequences by compositional de-attention; one weight matrix serves both directions.

    E = α·F_E(a)·F_E(b)ᵀ/units;  N = −β·‖F_N(a) − F_N(b)‖₁/units;  M = tanh(E) ⊙ 2·sigmoid(N);
    a' = M·b;  b' = Mᵀ·a

    `scaling` changes the factor 1/units. a' and b' pool the sequences themselves, not their
    projections. Masked positions, NaN included, have no effect and get weight exactly 0; their own
    output rows are 0. Each output keeps the mask of its input.

    Args:
        units: size of F_E and F_N. Defaults to the number of features of the inputs.
        activation: activation of the projections, for example "relu". Defaults to linear.
        use_bias: whether the projections have biases.
        share_projections: whether F_N is F_E. If False, each has its own weights. Defaults to True.
        kernel_initializer: initializer of the projection kernels. Defaults to "glorot_uniform".
        alpha: factor of E, in addition to the scaling: a number ≥ 0, or "learned" (starting at 1).
            Defaults to 1.
        beta: factor of N, like `alpha`. Defaults to 1.
        scaling: "mean" multiplies E and N by 1/units, which makes them a mean product and a mean
            difference; "paper" and "none" scale neither (eqs. 1–2), and gates start nearly closed.
            "calibrated" starts as "mean"; `models.calibrate_attention` then sets both scales.
            Defaults to "mean".
        similarity: "tanh" or "sigmoid". Defaults to "tanh".
        gate: "sigmoid", "tanh", "arctan" or "algebraic" (x/√(1+x²)). Defaults to "sigmoid".
        gate_range: "scaled" doubles a sigmoid gate (eq. 5) and leaves other gates unchanged;
            "centered" subtracts the mean of N over all real pairs (eq. 4); "raw" does neither.
            Defaults to "scaled".
        center_similarity: whether to subtract the mean of E (eq. 6).
        implementation: "auto" or an implementation of `ops.coda_pair`; it never changes the result.
            Defaults to "auto".

    Call arguments:
        inputs: [a, b] with a (B, T, features) and b (B, S, features).
        mask: [mask_a, mask_b], boolean (B, T) and (B, S), or None. Defaults to Keras' masks.
        return_attention_scores: also return M, (B, T, S).

    Returns:
        [a', b'] with a' (B, T, features) and b' (B, S, features), or [a', b', M].

    Raises:
        ValueError: an unknown option, inputs that are not two (B, length, features), a float mask.

    Example:
    >>> a, b = np.ones((2, 3, 8), "float32"), np.ones((2, 5, 8), "float32")
    >>> [tuple(output.shape) for output in CoDA()([a, b])]
    [(2, 3, 8), (2, 5, 8)]

    Source: Tay et al. 2019, "Compositional De-Attention Networks", eqs. 1–8.
    """

    def __init__(
        self,
        units: int | None = None,
        *,
        activation: Any = None,
        use_bias: bool = False,
        share_projections: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        alpha: Factor = 1.0,
        beta: Factor = 1.0,
        scaling: str = "mean",
        similarity: str = "tanh",
        gate: str = "sigmoid",
        gate_range: str = "scaled",
        center_similarity: bool = False,
        implementation: str = "auto",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.units = check_positive_integer(units, "units", optional=True)
        self.activation = check_activation(activation, "activation")
        self.use_bias, self.share_projections = use_bias, share_projections
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.show_options(
            CoDAOptions(
                alpha=alpha,
                beta=beta,
                scaling=scaling,
                similarity=similarity,
                gate=gate,
                gate_range=gate_range,
                center_similarity=center_similarity,
                implementation=implementation,
            )
        )

    def build(self, inputs_shape: list[Shape]) -> None:
        """Create the projections, and α and β if they are learned."""
        check_pair(inputs_shape)
        self._units = self.units or cast(int, inputs_shape[0][-1])
        self.similarity_projection = self._make_projection("similarity_projection", inputs_shape[0])
        self.distance_projection = self.similarity_projection
        if not self.share_projections:
            shape = inputs_shape[0]
            self.distance_projection = self._make_projection("distance_projection", shape)
        self._learned = self.options.make_weights(self, self._units)

    def _make_projection(self, name: str, shape: Shape) -> Dense:
        return make_dense(
            self, name, self._units, shape, activation=self.activation, use_bias=self.use_bias
        )

    def attend(
        self, a: Tensor, b: Tensor, mask_a: Mask, mask_b: Mask, **options: Any
    ) -> list[Tensor]:
        """Return [a', b'], and M if it is requested."""
        separate = not self.share_projections
        outputs = self.options.pair(
            self.similarity_projection(a),  # (B, T, units)
            self.similarity_projection(b),  # (B, S, units)
            mask_a,
            mask_b,
            distance_a=self.distance_projection(a) if separate else None,
            distance_b=self.distance_projection(b) if separate else None,
            value_a=a,
            value_b=b,
            learned=self._learned,
            return_scores=options["return_scores"],
        )
        return list(outputs)
