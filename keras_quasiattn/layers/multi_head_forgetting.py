"""Multi-head forgetting attention, a drop-in for `keras.layers.MultiHeadAttention`."""

import dataclasses
from typing import Any

import keras

from keras_quasiattn import ops
from keras_quasiattn.layers.shared.mechanisms import Mechanism, mechanism, multi_head_layer
from keras_quasiattn.layers.shared.multi_head_attention import MultiHeadQuasiAttention
from keras_quasiattn.layers.shared.projection import per_position

Tensor = Any


@mechanism("forgetting")
@dataclasses.dataclass
class Forgetting(Mechanism):
    """Weights are the softmax of dot products, lowered by the gates of later keys; no options.

    Layers over two sequences have one gate for each position that is attended to.
    """

    op = ops.forgetting_attention

    def make_weights(self, layer: Any, features: int, heads: int | None = None) -> dict[str, Any]:
        """Adds u and b to `layer`, for each of its heads."""
        of_heads = () if heads is None else (heads,)
        return {
            "kernel": layer.add_score_kernel((features, *of_heads), "forget_kernel"),
            "bias": layer.add_weight(
                shape=(*of_heads, 1), initializer="zeros", autocast=False, name="forget_bias"
            ),
        }

    def arguments(self, learned: dict[str, Any], **call: Any) -> dict[str, Any]:
        """Returns arguments for `ops.forgetting_attention`."""
        return {"scale": call["scale"], "log_forget": learned["log_forget"]}

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        *,
        learned: dict[str, Any],
        **options: Any,
    ) -> Any:
        """Computes the gates of the keys, and attends."""
        logits = per_position(key, learned["kernel"]) + learned["bias"]  # (B, ..., N, S), or (B, S)
        gates = {"log_forget": keras.ops.log_sigmoid(logits)}
        return super().attend(query, key, value, mask, learned=gates, **options)

    def operations(
        self, queries: int, keys: int, features: int, value_features: int, heads: int = 1
    ) -> int:
        """The sum of a pair's gates and its addition, 2, besides D and V."""
        return super().operations(queries, keys, features, value_features + 2, heads)


@multi_head_layer("forgetting")
@keras.saving.register_keras_serializable(package="keras_quasiattn")
class MultiHeadForgetting(MultiHeadQuasiAttention):
    """`keras.layers.MultiHeadAttention` in which keys may make a head forget those before them.

    f_s = sigmoid(uᵀ·k_s + b);  D_ts = Σ log f_r over the keys r after s that query t sees;
    weights = softmax(q·kᵀ/√H + D) over the visible keys;  output = (weights·v)·W_o

    With a causal mask, D_ts covers the positions after s up to the query, as in the paper. Without
    one, each key is lowered by all that follow it, so the layer is of use mainly in decoders and
    language models; it tells positions apart without position embeddings. In the paper the gates
    come from the layer's input by a linear function and a sigmoid; here, from the projected key
    (rotated, if there is a `rotary_base`), so that a cache of keys is enough to compute them.

    The call, masks, scores, sublayer names and rows with nothing to attend to are as in
    `layers.MultiHeadSoftmax`.

    Args:
        *args: as for `keras.layers.MultiHeadAttention`: `num_heads`, `key_dim` and so on. There is
            no flash kernel: `flash_attention` must be None or False.
        **kwargs: as for `layers.MultiHeadSoftmax`.

    Returns:
        (B, T, features); with `return_attention_scores`, a tuple of that and the weights
        (B, N, T, S) before dropout.

    Raises:
        ValueError: a float mask, shapes that do not fit together, or `flash_attention=True`.

    Example:
    >>> import numpy as np
    >>> from keras_quasiattn.layers import MultiHeadForgetting
    >>> x = np.ones((2, 5, 16), "float32")
    >>> tuple(MultiHeadForgetting(num_heads=2, key_dim=8)(x, x).shape)
    (2, 5, 16)

    Source: Lin et al. 2025, "Forgetting Transformer: Softmax Attention with a Forget Gate",
    eqs. 4 to 6.
    """

    options = Forgetting()
