"""What all attention over a matrix of scores shares: everything but the weights themselves."""

from collections.abc import Callable
from typing import Any

from keras import ops

from keras_quasiattn.ops.checks import check_dropout, check_features, check_lengths
from keras_quasiattn.ops.masking import as_boolean_mask, causal_mask, combine_masks
from keras_quasiattn.ops.precision import dot_products, weighted_sum
from keras_quasiattn.ops.random import drop_weights
from keras_quasiattn.ops.recording import record
from keras_quasiattn.ops.score_bias import (
    add_score_bias,
    as_score_bias,
    check_not_low,
    with_hidden_pairs,
)

Tensor = Any
# (scores (..., T, S), mask that broadcasts to them or None) → weights (..., T, S), 0 where the mask
# is False. The scores have floats of 32 or 64 bits, and any values at masked pairs.
Weigh = Callable[[Tensor, Tensor | None], Tensor]


def dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    weigh: Weigh,
    label: str,
    *,
    scale: float = 1.0,
    dropout: float = 0.0,
    dropout_seed: Tensor | None = None,
    **options: Any,
) -> Tensor | tuple[Tensor, Tensor]:
    """Attention with the weights that `weigh` makes of scale · query · keyᵀ + bias.

    Args:
        query: (..., T, D).
        key: (..., S, D).
        value: (..., S, V).
        mask: boolean (or 0/1 integer) that broadcasts to (..., T, S), or None.
        weigh: what makes the weights.
        label: names the weights in a recording.
        scale: factor of the dot products.
        dropout: fraction of the weights set to 0.
        dropout_seed: two integers; needed for dropout.
        **options: `bias`, `is_causal` and `return_scores`, as for `weighted_values`.

    Returns:
        output (..., T, V), or (output, weights), as `weighted_values`.

    Raises:
        ValueError: a float mask, a wrong bias, a rank below 2, lengths or feature counts that do
            not match, or dropout without a seed.
    """
    query, key, value = (ops.convert_to_tensor(tensor) for tensor in (query, key, value))
    check_features(query, key, "query", "key")
    check_lengths(key, value)
    check_dropout(dropout, dropout_seed)
    return weighted_values(
        dot_products(query, key, scale),  # (..., T, S)
        value,
        as_boolean_mask(mask, "mask"),
        weigh,
        label,
        dropout=dropout,
        dropout_seed=dropout_seed,
        **options,
    )


def weighted_values(
    scores: Tensor,
    value: Tensor,
    mask: Tensor | None,
    weigh: Weigh,
    label: str,
    *,
    name: str = "weights",
    is_causal: bool = False,
    dropout: float = 0.0,
    dropout_seed: Tensor | None = None,
    bias: Tensor | None = None,
    low_scores_delete: bool = True,
    return_scores: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Sums of `value` with the weights that `weigh` makes of scores (..., T, S) + bias.

    An active recording stores the weights under `name`. Unless `low_scores_delete`, a low bias that
    is not −∞ is an error.

    Returns:
        output (..., T, V) in the dtype of `value`, or (output, weights) with weights (..., T, S)
        before dropout.
    """
    if is_causal:
        mask = combine_masks(mask, causal_mask(*ops.shape(scores)[-2:]))
    bias = as_score_bias(bias, scores.shape)
    if not low_scores_delete:
        check_not_low(bias, mask)

    def weights_of(mask: Tensor | None) -> Tensor:
        weights = weigh(add_score_bias(scores, bias, mask), mask)  # (..., T, S)
        record(name, weights, mask, label)
        return weights

    weights = with_hidden_pairs(weights_of, mask, bias)
    output = weighted_sum("...ts,...sv->...tv", drop_weights(weights, dropout, dropout_seed), value)
    return (output, ops.cast(weights, value.dtype)) if return_scores else output
