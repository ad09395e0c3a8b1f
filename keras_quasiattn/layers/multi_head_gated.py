"""Gated multi-head attention, a drop-in for `keras.layers.MultiHeadAttention`."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import keras
from keras import ops as keras_ops

from keras_quasiattn import ops
from keras_quasiattn.layers.shared.gates import GateOptions, Gates
from keras_quasiattn.layers.shared.mechanisms import Mechanism, mechanism, multi_head_layer
from keras_quasiattn.layers.shared.multi_head_attention import MultiHeadQuasiAttention
from keras_quasiattn.layers.shared.projection import per_position
from keras_quasiattn.ops.backend import tanh
from keras_quasiattn.ops.masking import causal_mask, combine_masks
from keras_quasiattn.ops.score_bias import hide_where_infinite

Tensor = Any


@mechanism("gated")
@dataclasses.dataclass
class Gated(GateOptions, Mechanism):
    """Weights are the softmax of dot products with the keys whose gates are open.

    The options are those of `layers.MultiHeadGated`. Layers over two sequences have one gate for
    each position that is attended to. Where two sequences attend to each other, one net gives the
    gates of both, and each direction counts as a training call. For `operations`, `keys` is the
    number of open keys; the net that opens them is left out.
    """

    op = ops.softmax_attention
    counts_pairs: ClassVar[bool] = True  # for cost and density
    # Xue et al. 2019, "Text Classification".
    search_space: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        "temperature": (0.5, 1.0, 1.5, 2.0),
        "open_gate_cost": (0.4e-5, 0.5e-5, 1e-5, 0.4e-4, 0.5e-4, 1e-4, 1e-3),
    }

    def prepare(self, layer: Any, heads: int = 1) -> None:
        """Gives `layer` what draws its gates and counts their cost."""
        layer.gates = self.gates = Gates(
            self,
            seed=getattr(layer, "seed", None),
            metric_prefix=f"{layer.name}_",
            dtype=layer.dtype_policy,
        )

    def make_weights(self, layer: Any, features: int, heads: int | None = None) -> dict[str, Any]:
        """Adds u and b to `layer`, for each of its heads."""
        of_heads = () if heads is None else (heads,)
        layer.gate_kernel = layer.add_score_kernel((features, *of_heads), "gate_kernel")
        layer.gate_bias = layer.add_weight(
            shape=(*of_heads, 1), initializer="zeros", autocast=False, name="gate_bias"
        )
        self.gates.build(None)
        return {"kernel": layer.gate_kernel, "bias": layer.gate_bias}

    def arguments(self, learned: dict[str, Any], **call: Any) -> dict[str, Any]:
        """Returns arguments for `ops.softmax_attention`."""
        return {"scale": call["scale"], "gates": learned["gates"]}

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        *,
        learned: dict[str, Any],
        is_causal: bool = False,
        **options: Any,
    ) -> Any:
        """Draws the gates, and attends to the keys whose gates are open."""
        mask = hide_where_infinite(mask, options.get("bias"))
        if is_causal:
            mask = combine_masks(
                mask, causal_mask(keras_ops.shape(query)[-2], keras_ops.shape(key)[-2])
            )
        # (B, ..., N, S), or (B, S) without heads; the bias is (N, 1) or (1,).
        hidden = tanh(keras_ops.cast(key, learned["kernel"].dtype))
        logits = per_position(hidden, learned["kernel"]) + learned["bias"]
        # Soft gates: (B, ..., N, 1, S). Binary gates include the mask and replace it below.
        gates = self.gates(keras_ops.expand_dims(logits, -2), mask=mask)
        are_binary = keras.backend.standardize_dtype(gates.dtype) == "bool"
        return super().attend(
            query,
            key,
            value,
            gates if are_binary else mask,
            learned={"gates": None if are_binary else gates},
            **options,
        )


@multi_head_layer("gated")
@keras.saving.register_keras_serializable(package="keras_quasiattn")
class MultiHeadGated(MultiHeadQuasiAttention):
    """Multi-head softmax attention in which each head opens or closes a gate for each key.

    p_s = sigmoid(uᵀ·tanh(k_s) + b);  A = g_s·exp(q·kᵀ/√H) / Σ g·exp(q·kᵀ/√H);  output = (A·v)·W_o

    The gates g depend only on the keys. They come from a feed-forward net whose hidden layer is
    the key projection, so a cache of projected keys is enough to compute them. In training, g are
    Gumbel-softmax draws at temperature τ. Otherwise they are binary, and a query whose visible keys
    are all closed opens the visible key with the highest p.

    Constructor, call arguments, scores, sublayer names, LoRA and quantization are those of
    `layers.MultiHeadSoftmax`. Masks are boolean (or 0/1 integers); a float mask is an
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
        **kwargs: as for `layers.MultiHeadSoftmax`; `seed` also seeds the gates.

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
        options = Gated(
            temperature=temperature,
            final_temperature=final_temperature,
            annealing_steps=annealing_steps,
            open_gate_cost=open_gate_cost,
            inference=inference,
            threshold=threshold,
        )
        self._set_options(options)
