"""Gated multi-head attention, a drop-in for `keras.layers.MultiHeadAttention`."""

from typing import Any

import keras
from keras import ops as keras_ops

from keras_quasiattn import ops
from keras_quasiattn.layers.shared.gates import Gates
from keras_quasiattn.layers.shared.mechanisms import multi_head_layer
from keras_quasiattn.layers.shared.multi_head_attention import MultiHeadQuasiAttention, Shape
from keras_quasiattn.ops.backend import tanh
from keras_quasiattn.ops.masking import causal_mask, combine_masks

Tensor = Any


@multi_head_layer("gated")
@keras.saving.register_keras_serializable(package="keras_quasiattn")
class MultiHeadGated(MultiHeadQuasiAttention):
    """Multi-head softmax attention in which each head opens or closes each key.

    p_s = sigmoid(uᵀ·tanh(k_s) + b);  A = g_s·exp(q·kᵀ/√H) / Σ g·exp(q·kᵀ/√H);  output = (A·v)·W_o

    The gates g depend on the keys alone, through a feed-forward net whose hidden layer is the key projection, so
    cached keys carry their gates with them. In training g are Gumbel-softmax draws at temperature τ; otherwise
    binary, and a query that sees closed keys only opens the one of highest p it sees. Constructor, call, masks,
    scores, sublayer names, LoRA and quantization are those of `keras.layers.MultiHeadAttention`; masks are boolean
    (or 0/1 integers; a float mask is an error), explicit masks win over implicit ones, and a row with nothing to
    attend, or itself masked, gives exact zeros.

    Called with `training` given, as `fit` and `evaluate` do, the layer adds λ·Σ g/S to the loss, S the keys a query
    sees, averaged over queries and heads, and follows it and the density as the metrics "<name>_open_gate_cost" and
    "<name>_density". (Not on JAX, where Keras carries no layer's metrics.)

    Args:
        *args: as for `keras.layers.MultiHeadAttention`. There is no flash kernel:
            `flash_attention` must be None or False.
        temperature: τ > 0, at the start.
        final_temperature: τ after `annealing_steps`, reached exponentially; None = fixed.
        annealing_steps: training calls until then. Defaults to 10,000; no matter without `final_temperature`.
        open_gate_cost: λ ≥ 0.
        inference: "threshold" or "sample".
        threshold: the least p that opens a gate under "threshold". Defaults to 0.5.
        **kwargs: as for `keras.layers.MultiHeadAttention`; `seed` is that of the gates too.

    Returns:
        (B, T, features), or that and the weights (B, N, T, S) before dropout.

    Raises:
        ValueError: an option out of range, a float mask, shapes that do not fit, `flash_attention=True`.

    Example:
    >>> import numpy as np
    >>> from keras_quasiattn.layers import MultiHeadGated
    >>> x = np.ones((2, 5, 16), "float32")
    >>> tuple(MultiHeadGated(num_heads=2, key_dim=8)(x, x).shape)
    (2, 5, 16)

    Source: Xue et al. 2019, eqs. 2–10, carried over to the attention of Vaswani et al. 2017, eq. 1.
    """

    def __init__(
        self,
        *args: Any,
        temperature: float = 1.0,
        final_temperature: float | None = None,
        annealing_steps: int = 10_000,
        open_gate_cost: float = 1e-4,
        inference: str = "threshold",
        threshold: float = 0.5,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.gates = Gates(
            temperature=temperature,
            final_temperature=final_temperature,
            annealing_steps=annealing_steps,
            open_gate_cost=open_gate_cost,
            inference=inference,
            threshold=threshold,
            seed=self.seed,
            metric_prefix=f"{self.name}_",
            dtype=self.dtype_policy,
            name="gates",
        )

    @property
    def weights_see_all_pairs(self) -> bool:
        """True: the cost and the density leave masked queries out."""
        return True

    def build(self, query_shape: Shape, value_shape: Shape, key_shape: Shape | None = None) -> None:
        """Makes the projections and, a head, u and b."""
        super().build(query_shape, value_shape, key_shape)
        self.gate_kernel = self.add_score_kernel((self.key_dim, self.num_heads), "gate_kernel")
        self.gate_bias = self.add_weight(
            shape=(self.num_heads, 1), initializer="zeros", autocast=False, name="gate_bias"
        )
        self.gates.build(None)

    def attend(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **options: Any
    ) -> Any:
        """Softmax attention of the heads to the keys whose gates are open."""
        del options["training"]  # which the op has no use for
        if options.pop("is_causal"):
            mask = combine_masks(
                mask, causal_mask(keras_ops.shape(query)[-2], keras_ops.shape(key)[-2])
            )
        kernel = keras_ops.convert_to_tensor(self.gate_kernel)
        hidden = tanh(keras_ops.cast(key, kernel.dtype))
        logits = keras_ops.einsum("...nsh,hn->...ns", hidden, kernel) + self.gate_bias
        gates = self.gates(keras_ops.expand_dims(logits, -2), mask=mask)
        are_binary = keras.backend.standardize_dtype(gates.dtype) == "bool"
        return ops.softmax_attention(
            query,
            key,
            value,
            gates if are_binary else mask,
            scale=self.key_dim**-0.5,
            gates=None if are_binary else gates,
            **options,
        )

    def get_config(self) -> dict[str, Any]:
        """Every constructor argument."""
        names = (
            *("temperature", "final_temperature", "annealing_steps", "open_gate_cost"),
            *("inference", "threshold"),
        )
        return {**super().get_config(), **{name: getattr(self.gates, name) for name in names}}
