"""Multi-head differential attention, a drop-in for `keras.layers.MultiHeadAttention`."""

import dataclasses
import math
from typing import Any, ClassVar

import keras

from keras_quasiattn import ops
from keras_quasiattn.layers.shared.arguments import check_positive_integer
from keras_quasiattn.layers.shared.mechanisms import Mechanism, mechanism, multi_head_layer
from keras_quasiattn.layers.shared.multi_head_attention import MultiHeadQuasiAttention

Tensor = Any


@mechanism("differential")
@dataclasses.dataclass
class Differential(Mechanism):
    """Weights are the difference of two softmaxes, of the two halves of the features.

    `depth` is as in `layers.MultiHeadDifferential`. Layers over two sequences need at least two
    features, and the vectors that they pool are normalized.
    """

    op = ops.differential_attention

    depth: int = 1

    def __post_init__(self) -> None:
        check_positive_integer(self.depth, "depth")

    def make_weights(self, layer: Any, features: int, heads: int | None = None) -> dict[str, Any]:
        """Adds to `layer` the four vectors of λ, which its heads share."""
        half = (features + 1) // 2
        sizes = {1: half, 2: features - half}
        return {
            f"{side}_{part}": layer.add_weight(
                shape=(size,),
                initializer=keras.initializers.RandomNormal(stddev=0.1),
                autocast=False,
                name=f"lambda_{side}_{part}",
            )
            for part, size in sizes.items()
            for side in ("query", "key")
        }

    def arguments(self, learned: dict[str, Any], **call: Any) -> dict[str, Any]:
        """Returns arguments for `ops.differential_attention`."""
        first, second = (
            keras.ops.exp(keras.ops.sum(learned[f"query_{part}"] * learned[f"key_{part}"]))
            for part in (1, 2)
        )
        start = 0.8 - 0.6 * math.exp(-0.3 * (self.depth - 1))
        return {"subtracted": first - second + start, "output_scale": 1 - start}

    def operations(
        self, queries: int, keys: int, features: int, value_features: int, heads: int = 1
    ) -> int:
        """The second weight times λ and its subtraction, 1, besides D for both products and V."""
        return super().operations(queries, keys, features, value_features + 1, heads)


@multi_head_layer("differential")
@keras.saving.register_keras_serializable(package="keras_quasiattn")
class MultiHeadDifferential(MultiHeadQuasiAttention):
    """`keras.layers.MultiHeadAttention` whose weights are a softmax minus a part of another one.

    weights = softmax(q₁·k₁ᵀ/√H₁) − λ·softmax(q₂·k₂ᵀ/√H₂) over the visible keys, where q₁ and k₁ are
    the first half of a head's features, and q₂ and k₂ the second;
    λ = exp(λ_q1·λ_k1) − exp(λ_q2·λ_k2) + λ₀ with learned vectors, which the heads share;
    λ₀ = .8 − .6·exp(−.3·(depth − 1));
    output = ((1 − λ₀)·(weights·v)/rms(weights·v))·W_o, normalized for each head and query

    What both softmaxes have in common, such as a little weight for every key, cancels. In the paper
    a head has twice the features of one of the layer that it replaces, and there are half as many
    heads. `swap_attention` keeps the number and the size of heads, so that each half has half of
    the features. The paper's normalization has a learned factor for each feature, which W_o makes
    superfluous.

    The call, masks, scores, sublayer names and rows with nothing to attend to are as in
    `layers.MultiHeadSoftmax`.

    Args:
        *args: as for `keras.layers.MultiHeadAttention`: `num_heads`, `key_dim` and so on. There is
            no flash kernel: `flash_attention` must be None or False.
        depth: the number of the layer in its stack, counted from 1; λ starts near λ₀. Transformers
            in `models` set it. Defaults to 1.
        **kwargs: as for `layers.MultiHeadSoftmax`.

    Returns:
        (B, T, features); with `return_attention_scores`, a tuple of that and the weights
        (B, N, T, S) before dropout.

    Raises:
        ValueError: a wrong `depth`, `key_dim=1`, a float mask, shapes that do not fit together, or
            `flash_attention=True`.

    Example:
    >>> import numpy as np
    >>> from keras_quasiattn.layers import MultiHeadDifferential
    >>> x = np.ones((2, 5, 16), "float32")
    >>> tuple(MultiHeadDifferential(num_heads=2, key_dim=8)(x, x).shape)
    (2, 5, 16)

    Source: Ye et al. 2024, "Differential Transformer", eqs. 1 to 3.
    """

    score_parts: ClassVar[int] = 2

    def __init__(self, *args: Any, depth: int = 1, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._set_options(Differential(depth))
