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
    """Multi-head softmax attention in which each head opens or closes a gate for each key.

    p_s = sigmoid(uᵀ·tanh(k_s) + b);  A = g_s·exp(q·kᵀ/√H) / Σ g·exp(q·kᵀ/√H);  output = (A·v)·W_o

    The gates g depend on the keys alone. They come from a feed-forward net whose hidden layer is
    the key projection, so a cache of projected keys is enough to compute them. In training, g are
    Gumbel-softmax draws at temperature τ. Otherwise they are binary, and a query whose visible keys
    are all closed opens the visible key with the highest p.

    Constructor, call arguments, scores, sublayer names, LoRA and quantization are those of
    `keras.layers.MultiHeadAttention`. Masks are boolean (or 0/1 integers); a float mask is an
    error. Explicit masks win over implicit ones. A row that is masked or has nothing to attend to
    gives exact zeros.

    When called with `training` given, as `fit` and `evaluate` do, the layer adds λ·Σ g/S to the
    loss, averaged over queries and heads, where S is the number of keys that a query sees. It
    tracks this cost and the density as the metrics "<name>_open_gate_cost" and "<name>_density",
    except on JAX, where Keras does not carry the metrics of layers.

    Args:
        *args: as for `keras.layers.MultiHeadAttention`. There is no flash kernel:
            `flash_attention` must be None or False.
        temperature: τ > 0 at the start.
        final_temperature: τ after `annealing_steps`, approached exponentially; None keeps τ fixed.
        annealing_steps: training calls until τ is final. Defaults to 10,000. Ignored without
            `final_temperature`.
        open_gate_cost: λ ≥ 0.
        inference: "threshold" or "sample".
        threshold: the lowest p that opens a gate under "threshold". Defaults to 0.5.
        **kwargs: as for `keras.layers.MultiHeadAttention`; `seed` also seeds the gates.

    Returns:
        (B, T, features); with `return_attention_scores`, a tuple of that and the weights
        (B, N, T, S) before dropout.

    Raises:
        ValueError: an option out of range, a float mask, shapes that do not fit together, or
            `flash_attention=True`.

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
        """True, so that the mask given to `attend` hides masked queries from cost and density."""
        return True

    def build(self, query_shape: Shape, value_shape: Shape, key_shape: Shape | None = None) -> None:
        """Makes the projections, and u and b for each head."""
        super().build(query_shape, value_shape, key_shape)
        self.gate_kernel = self.add_score_kernel((self.key_dim, self.num_heads), "gate_kernel")
        self.gate_bias = self.add_weight(
            shape=(self.num_heads, 1), initializer="zeros", autocast=False, name="gate_bias"
        )
        self.gates.build(None)

    def attend(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **options: Any
    ) -> Any:
        """Softmax attention in every head to the keys whose gates are open."""
        del options["training"]  # not an argument of the op
        if options.pop("is_causal"):
            mask = combine_masks(
                mask, causal_mask(keras_ops.shape(query)[-2], keras_ops.shape(key)[-2])
            )
        kernel = keras_ops.convert_to_tensor(self.gate_kernel)  # (H, N)
        hidden = tanh(keras_ops.cast(key, kernel.dtype))  # (B, ..., N, S, H)
        # (B, ..., N, S); the bias is (N, 1).
        logits = keras_ops.einsum("...nsh,hn->...ns", hidden, kernel) + self.gate_bias
        # Soft gates: (B, ..., N, 1, S). Binary gates include the mask and replace it below.
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
        """Returns every constructor argument."""
        names = (
            *("temperature", "final_temperature", "annealing_steps", "open_gate_cost"),
            *("inference", "threshold"),
        )
        return {**super().get_config(), **{name: getattr(self.gates, name) for name in names}}
