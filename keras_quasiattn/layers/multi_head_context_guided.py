"""Multi-head context-guided quasi-attention, a drop-in for Keras' layer."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import keras

from keras_quasiattn import ops
from keras_quasiattn.layers.shared.arguments import check_number
from keras_quasiattn.layers.shared.mechanisms import Mechanism, mechanism, multi_head_layer
from keras_quasiattn.layers.shared.multi_head_attention import MultiHeadQuasiAttention
from keras_quasiattn.layers.shared.projection import per_position
from keras_quasiattn.ops.precision import project

Tensor = Any


@mechanism("context_guided")
@dataclasses.dataclass
class ContextGuided(Mechanism):
    """Weights are the softmax of dot products plus a gated term of both signs.

    `alpha` is as in `layers.MultiHeadContextGuided`.
    """

    op = ops.context_guided_attention
    search_space: ClassVar[Mapping[str, tuple[Any, ...]]] = {"alpha": (0.5, 1.0)}

    alpha: float = 1.0

    def __post_init__(self) -> None:
        check_number(self.alpha, "alpha")

    def make_weights(self, layer: Any, features: int, heads: int | None = None) -> dict[str, Any]:
        """Adds to `layer` Z_Q and Z_K, which its heads share, and u_Q and u_K for each head."""
        of_heads = () if heads is None else (heads,)
        shapes = {"context": (features, features), "gate": (features, *of_heads)}
        return {
            f"{side}_{kind}": layer.add_score_kernel(shape, f"{side}_{kind}_kernel")
            for kind, shape in shapes.items()
            for side in ("query", "key")
        }

    def arguments(self, learned: dict[str, Any], **call: Any) -> dict[str, Any]:
        """Returns arguments for `ops.context_guided_attention`."""
        return {"scale": call["scale"], "alpha": self.alpha, **learned}

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
        """Computes contexts and gates of queries and keys, and attends."""
        sides = {}
        for side, x in (("query", query), ("key", key)):
            kernel = keras.ops.convert_to_tensor(learned[f"{side}_context"])
            sides[f"{side}_context"] = project(keras.ops.cast(x, kernel.dtype), kernel)
            sides[f"{side}_gate"] = keras.ops.sigmoid(per_position(x, learned[f"{side}_gate"]))
        return super().attend(query, key, value, mask, learned=sides, **options)

    def operations(
        self, queries: int, keys: int, features: int, value_features: int, heads: int = 1
    ) -> int:
        """D for C_Q·C_K too, the gate of a pair and its product, 2, besides D and V."""
        return super().operations(queries, keys, 2 * features, value_features + 2, heads)


@multi_head_layer("context_guided")
@keras.saving.register_keras_serializable(package="keras_quasiattn")
class MultiHeadContextGuided(MultiHeadQuasiAttention):
    """`keras.layers.MultiHeadAttention` plus quasi-attention, which adds or subtracts values.

    C_Q = q·Z_Q;  C_K = k·Z_K;  λ = 1 − sigmoid(q·u_Q) − sigmoid(k·u_K), for each pair;
    weights = softmax(q·kᵀ/√H) + λ·α·sigmoid(C_Q·C_Kᵀ/√H) over the visible keys;
    output = (weights·v)·W_o

    With α = 1 a weight is between −1 and 2. At the start λ is near 0, and the layer near a softmax.
    In the paper the contexts C come from an embedding of the context (the target and aspect of a
    text); this layer is called without one and takes its contexts from queries and keys.

    The call, masks, scores, sublayer names and rows with nothing to attend to are as in
    `layers.MultiHeadSoftmax`.

    A negative `attention_bias` does not delete a key, to which λ still applies; −∞ hides the pair.
    A finite one below −1e4, a mask for other attentions, is an error, which graphs cannot find.

    Args:
        *args: as for `keras.layers.MultiHeadAttention`: `num_heads`, `key_dim` and so on. There is
            no flash kernel: `flash_attention` must be None or False.
        alpha: α, the size of the quasi-attention. Defaults to 1.0.
        **kwargs: as for `layers.MultiHeadSoftmax`.

    Returns:
        (B, T, features); with `return_attention_scores`, a tuple of that and the weights
        (B, N, T, S) before dropout.

    Raises:
        ValueError: an α that is no number, a float mask, shapes that do not fit together, or
            `flash_attention=True`.

    Example:
    >>> import numpy as np
    >>> from keras_quasiattn.layers import MultiHeadContextGuided
    >>> x = np.ones((2, 5, 16), "float32")
    >>> tuple(MultiHeadContextGuided(num_heads=2, key_dim=8)(x, x).shape)
    (2, 5, 16)

    Source: Wu & Ong 2021, "Context-Guided BERT for Targeted Aspect-Based Sentiment Analysis",
    quasi-attention (QACG-BERT).
    """

    def __init__(self, *args: Any, alpha: float = 1.0, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._set_options(ContextGuided(alpha))
