"""Multi-head attention in which some heads attend to keys that differ from the query."""

from typing import Any

import keras

from keras_quasiattn import ops
from keras_quasiattn.layers.shared.arguments import check_positive_integer
from keras_quasiattn.layers.shared.mechanisms import multi_head_layer
from keras_quasiattn.layers.shared.multi_head_attention import MultiHeadQuasiAttention, Shape
from keras_quasiattn.ops.checks import check_choice
from keras_quasiattn.ops.conflict import DEFAULT_DIFFERENCE, DIFFERENCES

Tensor = Any


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
        **kwargs: as for `keras.layers.MultiHeadAttention`.

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
        self.conflict_heads = check_positive_integer(conflict_heads, "conflict_heads")
        if conflict_heads > self.num_heads:
            raise ValueError(
                "`conflict_heads` must be at most `num_heads`. "
                f"Received: conflict_heads={conflict_heads}, num_heads={self.num_heads}"
            )
        check_choice(difference, DIFFERENCES, "difference")
        self.difference = difference

    def build(self, query_shape: Shape, value_shape: Shape, key_shape: Shape | None = None) -> None:
        """Makes the projections, and W_s for each conflict head."""
        super().build(query_shape, value_shape, key_shape)
        self.score_kernels = self.add_score_kernel(
            (self.key_dim, self.conflict_heads), "score_kernels"
        )

    def attend(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **options: Any
    ) -> Any:
        """Softmax attention in every head, over dot-product or conflict scores."""
        del options["training"]  # not an argument of the op
        return ops.multi_head_conflict_attention(
            query,
            key,
            value,
            self.score_kernels,
            mask,
            scale=self.key_dim**-0.5,
            difference=self.difference,
            **options,
        )

    def get_config(self) -> dict[str, Any]:
        """Returns every constructor argument."""
        return {
            **super().get_config(),
            "conflict_heads": self.conflict_heads,
            "difference": self.difference,
        }
