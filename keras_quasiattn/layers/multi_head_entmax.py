"""Multi-head α-entmax attention, a drop-in for `keras.layers.MultiHeadAttention`."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import keras

from keras_quasiattn import ops
from keras_quasiattn.layers.shared.arguments import check_number
from keras_quasiattn.layers.shared.mechanisms import Mechanism, mechanism, multi_head_layer
from keras_quasiattn.layers.shared.multi_head_attention import MultiHeadQuasiAttention
from keras_quasiattn.ops.entmax import check_alpha

Tensor = Any


@mechanism("entmax")
@dataclasses.dataclass
class Entmax(Mechanism):
    """Weights are the entmax of dot products; `alpha` is as in `layers.MultiHeadEntmax`."""

    op = ops.entmax_attention
    search_space: ClassVar[Mapping[str, tuple[Any, ...]]] = {"alpha": (1.25, 1.5, 1.75)}

    alpha: float | str = 1.5

    def __post_init__(self) -> None:
        alpha = check_number(self.alpha, "alpha", "learned")
        if alpha != "learned":
            check_alpha(alpha)

    def make_weights(self, layer: Any, features: int, heads: int | None = None) -> dict[str, Any]:
        """Adds to `layer` a, of which a learned α is 1 + sigmoid(a), one number per head."""
        if self.alpha != "learned":
            return {}
        shape = () if heads is None else (heads, 1, 1)
        return {"alpha": layer.add_weight(shape, "zeros", autocast=False, name="alpha_logit")}

    def arguments(self, learned: dict[str, Any], **call: Any) -> dict[str, Any]:
        """Returns arguments for `ops.entmax_attention`."""
        alpha = 1 + keras.ops.sigmoid(learned["alpha"]) if learned else self.alpha
        return {"scale": call["scale"], "alpha": alpha, "up_to_two": True}


@multi_head_layer("entmax")
@keras.saving.register_keras_serializable(package="keras_quasiattn")
class MultiHeadEntmax(MultiHeadQuasiAttention):
    """`keras.layers.MultiHeadAttention` with weights between a softmax's and a sparsemax's.

    weights = entmax(q·kᵀ/√H, α) over the visible keys;  output = (weights·v)·W_o

    The larger α is, the more weights are exactly 0.

    The call, masks, scores, sublayer names and rows with nothing to attend to are as in
    `layers.MultiHeadSoftmax`.

    Args:
        *args: as for `keras.layers.MultiHeadAttention`: `num_heads`, `key_dim` and so on. There is
            no flash kernel: `flash_attention` must be None or False.
        alpha: α: 1 (softmax), or from 1.01; 2 is a sparsemax, and what is above is sparser still
            and takes longer. "learned" means 1 + sigmoid(a) with a trainable a for each head, from
            1.5 at the start. Defaults to 1.5, which is faster than other values between 1 and 2.
        **kwargs: as for `layers.MultiHeadSoftmax`.

    Returns:
        (B, T, features); with `return_attention_scores`, a tuple of that and the weights
        (B, N, T, S) before dropout.

    Raises:
        ValueError: an α out of range, a float mask, shapes that do not fit together, or
            `flash_attention=True`.

    Example:
    >>> import numpy as np
    >>> from keras_quasiattn.layers import MultiHeadEntmax
    >>> x = np.ones((2, 5, 16), "float32")
    >>> tuple(MultiHeadEntmax(num_heads=2, key_dim=8)(x, x).shape)
    (2, 5, 16)

    Source: Peters, Niculae & Martins 2019, "Sparse Sequence-to-Sequence Models"; a learned α:
    Correia, Niculae & Martins 2019, "Adaptively Sparse Transformers".
    """

    def __init__(self, *args: Any, alpha: float | str = 1.5, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._set_options(Entmax(alpha))
