"""Multi-head compositional de-attention, a drop-in for `keras.layers.MultiHeadAttention`."""

from typing import Any

import keras

from keras_quasiattn import ops
from keras_quasiattn.layers.multi_head_attention import MultiHeadQuasiAttention, Shape, selectable_as
from keras_quasiattn.layers.temperature import (
    Temperature,
    check_temperature,
    scales,
    temperature,
    temperature_weights,
)
from keras_quasiattn.ops.choice import IMPLEMENTATIONS
from keras_quasiattn.ops.composition import Composition, check_choice

Tensor = Any


@selectable_as("coda")
@keras.saving.register_keras_serializable(package="keras_quasiattn")
class MultiHeadCoDA(MultiHeadQuasiAttention):
    """Multi-head attention whose weights add, subtract or delete values instead of averaging them.

    For each head, with q = query·W_q, k = key·W_k, v = value·W_v of size H:

    E = α·q·kᵀ;  N = −β·‖q[t] − k[s]‖₁;  M = tanh(E) ⊙ 2·sigmoid(N);  output = (M·v)·W_o

    Replace `keras.layers.MultiHeadAttention` with it: constructor, call, masks, scores, sublayer names, LoRA and
    quantization are the same. The weights of a row do not sum to 1. A masked pair weighs exactly 0, masks are
    boolean (or 0/1 integers; a float mask is an error), explicit masks win over implicit ones, and a row with
    nothing to attend, or itself masked, gives exact zeros.

    Args:
        num_heads: number of heads N.
        key_dim: size H of each head for query and key.
        value_dim: size of each head for value; default `key_dim`.
        dropout: share of the weights dropped in training.
        use_bias: whether the projections have biases.
        output_shape: features of the output; default those of the query.
        attention_axes: axes attention runs over; default all between batch and features.
        sliding_window: if set, a query sees keys at most `sliding_window - 1` positions away.
        flash_attention: None or False; there is no flash kernel.
        kernel_initializer: initializer of the projection kernels.
        bias_initializer: initializer of the projection biases.
        kernel_regularizer: regularizer of the projection kernels.
        bias_regularizer: regularizer of the projection biases.
        activity_regularizer: regularizer of the projections' outputs.
        kernel_constraint: constraint on the projection kernels.
        bias_constraint: constraint on the projection biases.
        use_gate: multiply the heads' output by a sigmoid projection of the query.
        seed: seed of the dropout.
        alpha: factor of E beside the scaling: a number ≥ 0, or "learned" for one a head, starting at 1.
        beta: the same for N.
        scaling: "mean" multiplies E and N by 1/H, so that they are a mean product and a mean difference and
            neither tanh nor gates start saturated; "paper" multiplies both by 1/√H (eq. 10), with which gates
            start nearly closed at usual head sizes; "none" leaves both.
        similarity: "tanh" or "sigmoid".
        gate: "sigmoid", "tanh", "arctan" or "algebraic" (x/√(1+x²)).
        gate_range: "scaled" doubles a sigmoid gate and leaves others; "centered" subtracts N's mean; "raw" neither.
        center_similarity: subtract the mean of E.
        center_per_query: take means over each query's keys rather than over all pairs; set it where queries
            must not see each other and the call is not causal, as from a decoder to its encoder.
        implementation: "auto" or an implementation of `ops.coda_attention`; never changes the result.
        **kwargs: `name`, `dtype` and the like.

    Call arguments:
        query: (B, T, features), or with more axes between.
        value: (B, S, features).
        key: (B, S, features); default `value`.
        query_mask: boolean (B, T); default the mask Keras attached to `query`.
        value_mask: boolean (B, S); default the mask Keras attached to `value`.
        key_mask: boolean (B, S); default the mask Keras attached to `key`.
        attention_mask: boolean (B, T, S), (T, S) or (B, N, T, S).
        return_attention_scores: also return M, (B, N, T, S); takes T·S memory a head.
        training: whether dropout applies.
        use_causal_mask: query i sees keys 0 … i only; means are then per query.

    Returns:
        (B, T, features), or that and M before dropout.

    Raises:
        ValueError: an unknown option, a float mask, shapes that do not fit, `flash_attention=True`.

    Example:
    >>> import numpy as np
    >>> from keras_quasiattn.layers import MultiHeadCoDA
    >>> x = np.random.default_rng(0).normal(size=(2, 5, 16)).astype("float32")
    >>> output, scores = MultiHeadCoDA(num_heads=2, key_dim=8)(x, x, return_attention_scores=True)
    >>> tuple(output.shape), tuple(scores.shape)
    ((2, 5, 16), (2, 2, 5, 5))

    Source: Tay et al. 2019, "Compositional De-Attention Networks", eq. 10.
    """

    # Means over all pairs would show a query the others.
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
        self.alpha = check_temperature(alpha, "alpha")
        self.beta = check_temperature(beta, "beta")
        self.scaling = scaling
        self._scales = scales(scaling, key_dim, paper=(key_dim**-0.5, key_dim**-0.5))
        self.similarity = similarity
        self.gate = gate
        self.gate_range = gate_range
        self.center_similarity = center_similarity
        self.center_per_query = center_per_query
        check_choice(center_per_query, (False, True), "center_per_query")
        check_choice(implementation, IMPLEMENTATIONS, "implementation")
        self.implementation = implementation
        self._composition = Composition(similarity, gate, gate_range, center_similarity)

    def build(self, query_shape: Shape, value_shape: Shape, key_shape: Shape | None = None) -> None:
        """Makes the projections, and α and β where they are learned."""
        super().build(query_shape, value_shape, key_shape)
        self._learned = temperature_weights(self, (self.num_heads, 1, 1), alpha=self.alpha, beta=self.beta)

    @property
    def weights_see_all_pairs(self) -> bool:
        """True when a mean over all pairs is subtracted."""
        return self._composition.uses_means and not self.center_per_query

    def weigh(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        *,
        is_causal: bool,
        dropout_seed: Tensor | None,
        return_scores: bool,
        training: bool | None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """CoDA of the heads."""
        return ops.coda_attention(
            query,
            key,
            value,
            mask,
            alpha=temperature(self.alpha, self._learned.get("alpha"), self._scales[0]),
            beta=temperature(self.beta, self._learned.get("beta"), self._scales[1]),
            similarity=self.similarity,
            gate=self.gate,
            gate_range=self.gate_range,
            center_similarity=self.center_similarity,
            center_per_query=self.center_per_query,
            is_causal=is_causal,
            dropout=self.dropout if dropout_seed is not None else 0.0,
            dropout_seed=dropout_seed,
            return_scores=return_scores,
            implementation=self.implementation,
            training=training,
        )

    def get_config(self) -> dict[str, Any]:
        """Every constructor argument."""
        names = (
            *("alpha", "beta", "scaling", "similarity", "gate", "gate_range"),
            *("center_similarity", "center_per_query", "implementation"),
        )
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}
