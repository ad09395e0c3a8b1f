"""Multi-head attention in which some heads attend to keys that differ from the query."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import keras

from keras_quasiattn import ops
from keras_quasiattn.layers.shared.arguments import check_positive_integer
from keras_quasiattn.layers.shared.mechanisms import Mechanism, mechanism, multi_head_layer
from keras_quasiattn.layers.shared.multi_head_attention import MultiHeadQuasiAttention
from keras_quasiattn.ops.checks import check_choice
from keras_quasiattn.ops.conflict import DEFAULT_DIFFERENCE, DIFFERENCES

Tensor = Any


@mechanism("conflict")
@dataclasses.dataclass
class Conflict(Mechanism):
    """Some heads score by dot products, the others by the difference of query and key.

    The options are those of `layers.MultiHeadConflict`. Layers over two sequences have one head, so
    all their scores are conflict scores.
    """

    op = ops.multi_head_conflict_attention
    needs_one_projection: ClassVar[bool] = True
    search_space: ClassVar[Mapping[str, tuple[Any, ...]]] = {"difference": DIFFERENCES}

    conflict_heads: int = 1
    difference: str = DEFAULT_DIFFERENCE

    def __post_init__(self) -> None:
        check_positive_integer(self.conflict_heads, "conflict_heads")
        check_choice(self.difference, DIFFERENCES, "difference")

    def prepare(self, layer: Any, heads: int = 1) -> None:
        """Checks that there are as many heads as conflict heads."""
        if self.conflict_heads > heads:
            raise ValueError(
                "`conflict_heads` must be at most `num_heads`, which is 1 in a layer without heads."
                f" Received: conflict_heads={self.conflict_heads}, num_heads={heads}"
            )

    def make_weights(self, layer: Any, features: int, heads: int | None = None) -> dict[str, Any]:
        """Adds to `layer` W_s, one for each conflict head."""
        shape = (features,) if heads is None else (features, self.conflict_heads)
        layer.score_kernels = layer.add_score_kernel(shape, "score_kernels")
        return {"score_kernels": layer.score_kernels}

    def arguments(self, learned: dict[str, Any], **call: Any) -> dict[str, Any]:
        """Returns arguments for `ops.multi_head_conflict_attention`."""
        return {"scale": call["scale"], "difference": self.difference, **learned}

    def operations(
        self, queries: int, keys: int, features: int, value_features: int, heads: int = 1
    ) -> int:
        """In a conflict head, each feature of a pair takes a difference and W_s times it: 2·D.

        "squared" is computed as a dot product, D, after the squares and their products with W_s, 2
        for each feature of a key, and 1 of a query. "signed" compares nothing: D for each key.
        """
        scores = {
            "absolute": queries * keys * 2 * features,
            "squared": (queries * keys + 2 * keys + queries) * features,
            "signed": keys * features,
        }
        sums = queries * keys * value_features
        products = super().operations(
            queries, keys, features, value_features, heads - self.conflict_heads
        )
        return products + self.conflict_heads * (scores[self.difference] + sums)


@multi_head_layer("conflict")
@keras.saving.register_keras_serializable(package="keras_quasiattn")
class MultiHeadConflict(MultiHeadQuasiAttention):
    """`keras.layers.MultiHeadAttention` with conflict heads beside its dot-product heads.

    A dot-product head: weights = softmax(q·kᵀ/√H). A conflict head, with a kernel W_s of its own:
    weights = softmax(a), a[i, j] = W_s·|tanh(q_i) − tanh(k_j)|. The conflict heads come last. Over
    all heads, output = (weights·v)·W_o.

    The call, masks, scores, sublayer names and rows with nothing to attend to are as in
    `layers.MultiHeadSoftmax`.

    Args:
        *args: as for `keras.layers.MultiHeadAttention`: `num_heads`, `key_dim` and so on. There is
            no flash kernel: `flash_attention` must be None or False.
        conflict_heads: how many of the heads are conflict heads, at least 1.
        difference: as in `layers.ConflictAttention`. With "signed", each conflict head gives every
            query the same weights.
        **kwargs: as for `layers.MultiHeadSoftmax`.

    Returns:
        (B, T, features); with `return_attention_scores`, a tuple of that and the weights
        (B, N, T, S) before dropout.

    Raises:
        ValueError: more conflict heads than heads, an unknown difference, a float mask, shapes that
            do not fit together, or `flash_attention=True`.

    Example:
    >>> import numpy as np
    >>> from keras_quasiattn.layers import MultiHeadConflict
    >>> x = np.ones((2, 5, 16), "float32")
    >>> tuple(MultiHeadConflict(num_heads=2, key_dim=8, conflict_heads=1)(x, x).shape)
    (2, 5, 16)

    Source: Mitra 2019, "Conflict as an Inverse of Attention in Sequence Relationship", §6.1 and
    eqs. 7–9.
    """

    def __init__(
        self,
        *args: Any,
        conflict_heads: int = 1,
        difference: str = DEFAULT_DIFFERENCE,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self._set_options(Conflict(conflict_heads, difference))
