"""Multi-head compositional de-attention, a drop-in for `keras.layers.MultiHeadAttention`."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import keras

from keras_quasiattn import ops
from keras_quasiattn.layers.shared.mechanisms import Mechanism, mechanism, multi_head_layer
from keras_quasiattn.layers.shared.multi_head_attention import MultiHeadQuasiAttention
from keras_quasiattn.layers.shared.temperature import (
    Temperature,
    check_temperature,
    scaling_factor,
    temperature,
    temperature_weights,
)
from keras_quasiattn.ops.checks import check_choice
from keras_quasiattn.ops.coda.choice import CODA_IMPLEMENTATIONS
from keras_quasiattn.ops.coda.composition import Composition

Tensor = Any


@mechanism("coda")
@dataclasses.dataclass
class CoDAOptions(Mechanism):
    """The arguments of `layers.CoDA` from `alpha` on, with the same meaning; checked here."""

    op = ops.coda_attention
    needs_one_projection: ClassVar[bool] = True
    pair_score_count: ClassVar[int] = 1
    # The compositions, ranges and centrings of Tay et al. 2019, sections 2.2 and 4.
    search_space: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        "alpha": (0.5, 1.0, 2.0),
        "beta": (0.5, 1.0, 2.0),
        "scaling": ("mean", "paper", "none"),
        "similarity": ("tanh", "sigmoid"),
        "gate": ("sigmoid", "tanh", "arctan", "algebraic"),
        "gate_range": ("scaled", "centered", "raw"),
        "center_similarity": (False, True),
    }

    alpha: Temperature = 1.0
    beta: Temperature = 1.0
    scaling: str = "mean"
    similarity: str = "tanh"
    gate: str = "sigmoid"
    gate_range: str = "scaled"
    center_similarity: bool = False
    implementation: str = "auto"

    def __post_init__(self) -> None:
        self.alpha = check_temperature(self.alpha, "alpha")
        self.beta = check_temperature(self.beta, "beta")
        scaling_factor(self.scaling, 1, paper=1.0)
        self.composition = Composition(
            self.similarity, self.gate, self.gate_range, self.center_similarity
        )
        check_choice(self.implementation, CODA_IMPLEMENTATIONS, "implementation")

    @property
    def sees_all_pairs(self) -> bool:
        """True when a mean is subtracted from E or N."""
        return self.composition.uses_means

    def make_weights(self, layer: Any, features: int, heads: int | None = None) -> dict[str, Any]:
        """Adds to `layer` a weight for each of α and β that is "learned", one number per head."""
        shape = () if heads is None else (heads, 1, 1)
        return temperature_weights(layer, shape, alpha=self.alpha, beta=self.beta)

    def pair(
        self,
        a: Tensor,
        b: Tensor,
        mask_a: Tensor | None,
        mask_b: Tensor | None,
        **options: Any,
    ) -> tuple[Tensor, ...]:
        """Calls `ops.coda_pair`, passing `options` on; one weight matrix serves both directions."""
        arguments = self._matrix(options.pop("learned"), a.shape[-1], paper_scale=1.0)
        return ops.coda_pair(a, b, mask_a, mask_b, **arguments, **options)

    def arguments(
        self,
        learned: dict[str, Any],
        *,
        features: int,
        scale: float,
        paper_scale: float,
        center_per_query: bool,
    ) -> dict[str, Any]:
        """Returns arguments for `ops.coda_attention`."""
        return {
            **self._matrix(learned, features, paper_scale),
            "center_per_query": center_per_query,
        }

    def _matrix(self, learned: dict[str, Any], features: int, paper_scale: float) -> dict[str, Any]:
        """Returns the options that define M, with α and β times the scaling factor."""
        factor = scaling_factor(self.scaling, features, paper=paper_scale)
        options = dataclasses.asdict(self)
        del options["scaling"]
        return {
            **options,
            "alpha": temperature(self.alpha, learned.get("alpha"), factor),
            "beta": temperature(self.beta, learned.get("beta"), factor),
        }

    def operations(
        self, queries: int, keys: int, features: int, value_features: int, heads: int = 1
    ) -> int:
        """For each pair: D for E, D for the terms |q − k| of N, 1 for tanh(E) times the gate."""
        pairs = heads * queries * keys
        return super().operations(queries, keys, features, value_features, heads) + pairs * (
            features + 1
        )


@multi_head_layer("coda")
@keras.saving.register_keras_serializable(package="keras_quasiattn")
class MultiHeadCoDA(MultiHeadQuasiAttention):
    """Multi-head attention whose weights add, subtract or delete values instead of averaging them.

    For each head, with q = query·W_q and k = key·W_k of size H, and v = value·W_v:

    E = α·q·kᵀ/H + bias;  N = −β·‖q[t] − k[s]‖₁/H;  M = tanh(E) ⊙ 2·sigmoid(N);
    output = (M·v)·W_o

    `scaling` changes the factor 1/H. A weight near 1 adds a value, near 0 deletes it, below 0
    subtracts it. Since E and N compare the same q and k, vectors that point apart are also distant:
    with 1/H and up to 64 features no weight is below −.8.

    A drop-in for `keras.layers.MultiHeadAttention`: constructor, call arguments, scores, sublayer
    names, LoRA and quantization are the same. The weights of a row do not sum to 1. Masks are
    boolean (or 0/1 integers); a float mask is an error. Explicit masks win over implicit ones. A
    masked pair has a weight of exactly 0. A row that is masked or has nothing to attend to gives
    exact zeros.

    The bias, 0 unless `attention_bias` is given, moves the sign and strength of a weight: where it
    is large and negative, tanh(E) is −1 and the key is subtracted, not ignored. N is unchanged, and
    the gate still deletes. A bias of −∞ hides the pair; a finite one below −1e4, a mask for other
    attentions, is an error, which graphs cannot find. Under `rotary_base`, E depends on two
    positions by their difference alone. N does not: a rotation keeps Euclidean distances, not the
    L1 distance, so the gate of the same pair differs a little from place to place (of unit normals
    of 64 features, by 4% of the distance on average; at most by a factor of √H).

    Args:
        num_heads: number of heads N.
        key_dim: size H of each head for query and key.
        value_dim: size of each head for value. Defaults to `key_dim`.
        dropout: fraction of the weights dropped in training.
        use_bias: whether the projections have biases.
        output_shape: features of the output. Defaults to those of the query.
        attention_axes: axes to attend over. Defaults to all axes between batch and features.
        sliding_window: if set, a query sees only keys at most `sliding_window - 1` positions away.
        flash_attention: None or False; there is no flash kernel.
        kernel_initializer: initializer of the projection kernels.
        bias_initializer: initializer of the projection biases.
        kernel_regularizer: regularizer of the projection kernels.
        bias_regularizer: regularizer of the projection biases.
        activity_regularizer: regularizer of the projections' outputs.
        kernel_constraint: constraint on the projection kernels.
        bias_constraint: constraint on the projection biases.
        use_gate: whether to multiply the heads' output by a sigmoid projection of the query.
        seed: seed of the dropout.
        num_key_value_heads: heads G of keys and values, each for N / G heads of queries; divides N.
            Their projections and caches have G heads. Defaults to N.
        rotary_base: base of the angles by which positions rotate queries and keys
            (`ops.rotary_embedding`), such as 10_000.0; `key_dim` is then even. Defaults to None: no
            rotation.
        alpha: factor of E in addition to `scaling`: a number ≥ 0, or "learned" for one factor per
            head, starting at 1.
        beta: factor of N, like `alpha`.
        scaling: "mean" multiplies E and N by 1/H. E is then a mean product and N a mean difference,
            so neither tanh nor the gates start saturated. "paper" multiplies both by 1/√H (eq. 10);
            gates then start nearly closed at usual head sizes. "none" leaves both unscaled.
        similarity: "tanh" or "sigmoid".
        gate: "sigmoid", "tanh", "arctan" or "algebraic" (x/√(1+x²)).
        gate_range: "scaled" doubles a sigmoid gate and leaves other gates unchanged; "centered"
            subtracts the mean of N; "raw" does neither.
        center_similarity: whether to subtract the mean of E.
        center_per_query: whether to take means over each query's keys instead of over all pairs.
            Set it where queries must not see each other and the call is not causal, as in attention
            from a decoder to its encoder.
        implementation: "auto" or an implementation of `ops.coda_attention`; it never changes the
            result.
        **kwargs: `name`, `dtype` and the like.

    Call arguments:
        query: (B, T, features), or with more axes between batch and features.
        value: (B, S, features).
        key: (B, S, features). Defaults to `value`.
        query_mask: boolean (B, T). Defaults to the mask Keras attached to `query`.
        value_mask: boolean (B, S). Defaults to the mask Keras attached to `value`.
        key_mask: boolean (B, S). Defaults to the mask Keras attached to `key`.
        attention_mask: boolean (B, T, S), (T, S) or (B, N, T, S).
        return_attention_scores: whether to return M, (B, N, T, S), too; takes T·S memory per head.
        training: whether dropout applies.
        use_causal_mask: whether query i sees keys 0 … i only; means are then per query.
        attention_bias: floats that broadcast to (B, N, T, S), such as (T, S) or (N, T, S), added to
            E; −∞ hides a pair. What they hold at masked pairs does not matter.

    Returns:
        (B, T, features); with `return_attention_scores`, a tuple of that and M before dropout.

    Raises:
        ValueError: an unknown option, a float mask, a bias without floats or too low, shapes that
            do not fit together, or `flash_attention=True`.

    Example:
    >>> import numpy as np
    >>> from keras_quasiattn.layers import MultiHeadCoDA
    >>> x = np.random.default_rng(0).normal(size=(2, 5, 16)).astype("float32")
    >>> output, scores = MultiHeadCoDA(num_heads=2, key_dim=8)(x, x, return_attention_scores=True)
    >>> tuple(output.shape), tuple(scores.shape)
    ((2, 5, 16), (2, 2, 5, 5))

    Source: Tay et al. 2019, "Compositional De-Attention Networks", eq. 10.
    """

    # Means over all pairs would make each query depend on the others.
    cross_attention_options = {"center_per_query": True}

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        dropout: float = 0.0,
        use_bias: bool = True,
        output_shape: Any = None,
        attention_axes: Any = None,
        sliding_window: int | None = None,
        flash_attention: bool | None = None,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        use_gate: bool = False,
        seed: int | None = None,
        *,
        alpha: Temperature = 1.0,
        beta: Temperature = 1.0,
        scaling: str = "mean",
        similarity: str = "tanh",
        gate: str = "sigmoid",
        gate_range: str = "scaled",
        center_similarity: bool = False,
        center_per_query: bool = False,
        implementation: str = "auto",
        **kwargs: Any,
    ) -> None:
        super().__init__(
            num_heads,
            key_dim,
            value_dim=value_dim,
            dropout=dropout,
            use_bias=use_bias,
            output_shape=output_shape,
            attention_axes=attention_axes,
            sliding_window=sliding_window,
            flash_attention=flash_attention,
            kernel_initializer=kernel_initializer,
            bias_initializer=bias_initializer,
            kernel_regularizer=kernel_regularizer,
            bias_regularizer=bias_regularizer,
            activity_regularizer=activity_regularizer,
            kernel_constraint=kernel_constraint,
            bias_constraint=bias_constraint,
            use_gate=use_gate,
            seed=seed,
            **kwargs,
        )
        options = CoDAOptions(
            alpha=alpha,
            beta=beta,
            scaling=scaling,
            similarity=similarity,
            gate=gate,
            gate_range=gate_range,
            center_similarity=center_similarity,
            implementation=implementation,
        )
        self._set_options(options)
        check_choice(center_per_query, (False, True), "center_per_query")
        self.center_per_query = center_per_query

    @property
    def weights_see_all_pairs(self) -> bool:
        """True when a mean over all pairs is subtracted."""
        return self.options.sees_all_pairs and not self.center_per_query

    def attend(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **options: Any
    ) -> Any:
        """Applies CoDA in each head."""
        return super().attend(
            query, key, value, mask, center_per_query=self.center_per_query, **options
        )

    def get_config(self) -> dict[str, Any]:
        """Returns every constructor argument."""
        return {**super().get_config(), "center_per_query": self.center_per_query}
