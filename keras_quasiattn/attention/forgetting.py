"""Forgetting attention: a softmax whose scores are lowered by gates of later keys."""

import dataclasses
from typing import Any, ClassVar

import keras
from keras import ops

from keras_quasiattn.attention.base import ScoreAttention, register_attention
from keras_quasiattn.attention.multi_head import MultiHeadQuasiAttention
from keras_quasiattn.core.backend import cumsum
from keras_quasiattn.core.masks import Mask, masked_softmax, zero_masked
from keras_quasiattn.core.tensors import as_dtype, check_per_position, check_rank, per_position

Tensor = Any


def forgetting_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    log_forget: Tensor,
    **options: Any,
) -> Tensor | tuple[Tensor, Tensor]:
    """Apply softmax attention in which each key makes the query partly forget earlier keys.

    D_ts = Σ log f_r over the keys r after s that query t sees;
    W = softmax(scale · query · keyᵀ + bias + D);  output = W · value

    With a causal mask D_ts is the sum over r = s + 1 … t, as in the paper. Without one a query sees
    keys on both sides, and all later keys lower the score of a key. Gates of masked keys have no
    effect. All else is as in `ops.softmax_attention`.

    Args:
        query: (..., T, D).
        key: (..., S, D).
        value: (..., S, V).
        mask: boolean (or 0/1 integer) that broadcasts to (..., T, S); True = attend.
            Defaults to None.
        log_forget: log f, the logarithms of the gates in (0, 1], (..., S).
        **options: as for `ops.softmax_attention`, from `scale` on.

    Returns:
        output (..., T, V) in the dtype of `value`, or (output, W) with W (..., T, S).

    Example:
    >>> x, gates = np.zeros((3, 1)), np.full(3, 0.5)
    >>> options = {"log_forget": np.log(gates), "is_causal": True, "return_scores": True}
    >>> _, weights = forgetting_attention(x, x, x, **options)
    >>> np.asarray(weights).round(3).tolist()
    [[1.0, 0.0, 0.0], [0.333, 0.667, 0.0], [0.143, 0.286, 0.571]]

    Source: Lin et al. 2025, "Forgetting Transformer: Softmax Attention with a Forget Gate", eqs. 4
    to 6.
    """
    log_forget, key = ops.convert_to_tensor(log_forget), ops.convert_to_tensor(key)
    check_rank(key, "key")
    check_per_position(log_forget, key, "log_forget", "key")
    learned = {"log_forget": log_forget}
    return Forgetting().compute(query, key, value, mask, learned=learned, **options)


@dataclasses.dataclass
class Forgetting(ScoreAttention):
    """Weights are the softmax of dot products lowered by the gates of later keys."""

    label = "forgetting weights"
    further_per_pair: ClassVar[int] = 2  # a sum of gates, and adding it

    def make_weights(self, layer: Any, features: int, heads: int | None = None) -> dict[str, Any]:
        """Add u and b to `layer` for each head."""
        of_heads = () if heads is None else (heads,)
        kernel = layer.add_score_kernel((features, *of_heads), "forget_kernel")
        shape = (*of_heads, 1)
        bias = layer.add_weight(shape, "zeros", autocast=False, name="forget_bias")
        return {"kernel": kernel, "bias": bias}

    def attend(
        self, query: Tensor, key: Tensor, *others: Any, learned: dict[str, Any], **options: Any
    ) -> Any:
        """Compute the gates of the keys, and attend."""
        logits = per_position(key, learned["kernel"]) + learned["bias"]  # (B, ..., N, S), or (B, S)
        gates = {"log_forget": ops.log_sigmoid(logits)}
        return super().attend(query, key, *others, learned=gates, **options)

    def weights(self, scores: Tensor, mask: Mask, learned: dict[str, Any]) -> Tensor:
        """Return the softmax of each row of scores, lowered by the gates."""
        gates = ops.expand_dims(as_dtype(learned["log_forget"], scores.dtype), -2)
        gates = zero_masked(gates, mask)
        backward = ops.flip(gates, axis=-1)
        lowered = ops.flip(cumsum(backward) - backward, axis=-1)
        return masked_softmax(scores + lowered, mask)


@register_attention("forgetting")
@keras.saving.register_keras_serializable(package="keras_quasiattn")
class MultiHeadForgetting(MultiHeadQuasiAttention):
    """`keras.layers.MultiHeadAttention` in which a key can make a head forget earlier keys.

    f_s = sigmoid(uᵀ·k_s + b);  D_ts = Σ log f_r over the keys r after s that query t sees;
    weights = softmax(q·kᵀ/√H + D) over the visible keys;  output = (weights·v)·W_o

    With a causal mask, D_ts covers the positions after s up to the query, as in the paper. Without
    one, all later keys lower the score of a key, so the layer is mainly useful in decoders and
    language models, where it needs no position embeddings. In the paper the gates come from the
    layer's input by a linear function and a sigmoid; here, from the projected key (rotated, if
    there is a `rotary_base`), because a cache of keys is then enough to compute them. All else is
    as in `layers.MultiHeadSoftmax`.

    Args:
        **arguments: as for `layers.MultiHeadQuasiAttention`.

    Returns:
        (B, T, features); with `return_attention_scores` also the weights (B, N, T, S).

    Example:
    >>> x = np.ones((2, 5, 16), "float32")
    >>> tuple(MultiHeadForgetting(num_heads=2, key_dim=8)(x, x).shape)
    (2, 5, 16)

    Source: Lin et al. 2025, "Forgetting Transformer: Softmax Attention with a Forget Gate",
    eqs. 4 to 6.
    """

    options_class = Forgetting
