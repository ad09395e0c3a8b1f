"""Multi-head softmax attention with this package's mask rules: the baseline in comparisons."""

import dataclasses
from typing import Any

import keras

from keras_quasiattn import ops
from keras_quasiattn.layers.shared.mechanisms import Mechanism, mechanism, multi_head_layer
from keras_quasiattn.layers.shared.multi_head_attention import MultiHeadQuasiAttention

Tensor = Any


@mechanism("softmax")
@dataclasses.dataclass
class Softmax(Mechanism):
    """Weights are the softmax of dot products; there are no options."""

    op = ops.softmax_attention

    def pair(
        self,
        a: Tensor,
        b: Tensor,
        mask_a: Tensor | None,
        mask_b: Tensor | None,
        *,
        value_a: Tensor,
        value_b: Tensor,
        return_scores: bool = False,
        **options: Any,
    ) -> tuple[Tensor, ...]:
        """Calls `ops.alignment_pair`, which computes the products once for both directions."""
        return ops.alignment_pair(
            a, b, mask_a, mask_b, value_a=value_a, value_b=value_b, return_scores=return_scores
        )


@multi_head_layer("softmax")
@keras.saving.register_keras_serializable(package="keras_quasiattn")
class MultiHeadSoftmax(MultiHeadQuasiAttention):
    """`keras.layers.MultiHeadAttention` with the same weights but this package's mask rules.

    weights = softmax(q·kᵀ/√H + bias) over the visible keys;  output = (weights·v)·W_o

    The attention differs from Keras' layer only in the masks: a float mask is an error, explicit
    masks win over implicit ones, and a row with nothing to attend to gives exact zeros where Keras
    averages the padding. The initial projection kernels differ too: each is drawn as a matrix
    (inputs, outputs). The bias is 0 unless the call is given an `attention_bias`: floats that
    broadcast to (B, N, T, S), such as (T, S) or (N, T, S), whatever they hold at masked pairs. A
    bias of −∞ hides the pair, as a mask does.

    Args:
        num_heads: number of heads N.
        key_dim: size H of each head for query and key.
        value_dim: size of each head for value. Defaults to `key_dim`.
        dropout: fraction of the weights dropped in training.
        use_bias: whether the projections have biases.
        output_shape: features of the output. Defaults to those of the query.
        attention_axes: axes to attend over. Defaults to all axes between batch and features.
        sliding_window: if set, a query sees only keys at most `sliding_window - 1` positions away.
        flash_attention: None or False; there is no flash kernel.
        kernel_initializer: initializer of the projection kernels.
        bias_initializer: initializer of the projection biases.
        kernel_regularizer: regularizer of the projection kernels.
        bias_regularizer: regularizer of the projection biases.
        activity_regularizer: regularizer of the projections' outputs.
        kernel_constraint: constraint on the projection kernels.
        bias_constraint: constraint on the projection biases.
        use_gate: whether to multiply the heads' output by a sigmoid projection of the query.
        seed: seed of the dropout.
        num_key_value_heads: heads G of keys and values, each for N / G heads of queries; divides N.
            Their projections and caches have G heads. Defaults to N.
        rotary_base: base of the angles by which positions rotate queries and keys
            (`ops.rotary_embedding`), such as 10_000.0; `key_dim` is then even. Defaults to None: no
            rotation.
        **kwargs: `name`, `dtype` and the like.

    Returns:
        (B, T, features); with `return_attention_scores`, a tuple of that and the weights
        (B, N, T, S) before dropout.

    Raises:
        ValueError: a float mask, a bias without floats, shapes that do not fit together, or
            `flash_attention=True`.

    Example:
    >>> import numpy as np
    >>> from keras_quasiattn.layers import MultiHeadSoftmax
    >>> x = np.ones((2, 5, 16), "float32")
    >>> tuple(MultiHeadSoftmax(num_heads=2, key_dim=8)(x, x).shape)
    (2, 5, 16)

    Source: Vaswani et al. 2017, eq. 1.
    """

    options = Softmax()
