"""A bias on attention scores: check it, add it, and hide the pairs where it is −∞."""

import math
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_quasiattn.core.backend import known_content, may_branch
from keras_quasiattn.core.masks import combine_masks, zero_masked
from keras_quasiattn.core.recording import is_recording
from keras_quasiattn.core.tensors import check_broadcast, with_rank

Tensor = Any
LOWEST_SCORE = -1e4  # a finite bias below this was meant as a mask for a softmax


def as_score_bias(bias: Tensor, shape: tuple[Any, ...], name: str = "bias") -> Tensor:
    """Return `bias`, checked against `shape` (None: an unknown length), with two or more axes."""
    bias = ops.convert_to_tensor(bias)
    check_score_bias(bias, shape, name)
    return with_rank(bias, 2)


def check_score_bias(bias: Tensor, shape: tuple[Any, ...], name: str) -> None:
    """Raise a `ValueError` naming `name` unless `bias` holds floats that broadcast to `shape`."""
    bias = bias if hasattr(bias, "dtype") else ops.convert_to_tensor(bias)
    dtype = keras.backend.standardize_dtype(bias.dtype)
    if "float" not in dtype:
        raise ValueError(
            f"`{name}` must hold floats, which are added to the scores; a mask of what to attend "
            f"to is another argument. Received: {name} of dtype {dtype}"
        )
    check_broadcast(bias, shape, name, "the scores")


def check_not_low(bias: Tensor, mask: Tensor | None) -> None:
    """Raise a `ValueError` for a finite bias too low to be a bias, unless it is traced."""
    content = known_content(bias)
    if content is None:
        return
    low = np.isfinite(content) & (content < LOWEST_SCORE)
    if not low.any():
        return
    visible = True if mask is None else known_content(mask)
    if visible is not None and (low & visible).any():
        raise ValueError(
            f"`bias` (in a layer `attention_bias`) must be −inf where it hides a pair, or at least "
            f"{LOWEST_SCORE:g}: a low score does not delete a key from these weights. A boolean "
            f"mask hides pairs too. Received: a bias of {content[low].min():g}"
        )


def hide_where_infinite(mask: Tensor | None, bias: Tensor) -> Tensor:
    """Return `mask` without the pairs whose bias is −∞, which hides a pair in every attention."""
    return combine_masks(mask, ops.not_equal(bias, ops.cast(-math.inf, bias.dtype)))


def with_hidden_pairs(
    compute: Callable[[Tensor | None], Any], mask: Tensor | None, bias: Tensor
) -> Any:
    """Return `compute(mask)`, with a mask that also hides the pairs at which the bias is −∞.

    Most biases hide nothing, and a mask of their size costs up to half the time of a softmax. If
    branching at run time is cheap, the bias is therefore searched for −∞ first. `compute` must
    return tensors of the same shapes for any mask and for None.
    """

    def hiding() -> Any:
        return compute(hide_where_infinite(mask, bias))

    # A tensor recorded in a branch of `ops.cond` cannot be used outside that branch.
    if is_recording() or not may_branch(bias):
        return hiding()
    hides = ops.any(ops.equal(bias, ops.cast(-math.inf, bias.dtype)))
    return ops.cond(hides, hiding, lambda: compute(mask))


def add_score_bias(scores: Tensor, bias: Tensor, mask: Tensor | None) -> Tensor:
    """Add `bias` to `scores` (..., T, S); its values where the mask is False have no effect."""
    return scores + zero_masked(ops.cast(bias, scores.dtype), mask)
