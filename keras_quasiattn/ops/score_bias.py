"""A bias on attention scores: what it may be, and how it is added."""

from typing import Any

import keras
from keras import ops

from keras_quasiattn.ops.masking import zero_masked

Tensor = Any


def as_score_bias(bias: Tensor | None, shape: tuple[Any, ...], name: str = "bias") -> Tensor | None:
    """Returns `bias` as a tensor of two or more axes (None stays None).

    Args:
        bias: floats that broadcast to `shape`.
        shape: that of the scores, (..., T, S); None stands for an unknown length.
        name: the argument's name, for the error message.

    Raises:
        ValueError: `bias` holds booleans or integers, or has another shape.
    """
    if bias is None:
        return None
    bias = ops.convert_to_tensor(bias)
    check_score_bias(bias, shape, name)
    return ops.expand_dims(bias, tuple(range(2 - len(bias.shape)))) if len(bias.shape) < 2 else bias


def check_score_bias(bias: Tensor | None, shape: tuple[Any, ...], name: str) -> None:
    """Raises a `ValueError` naming `name` unless `bias` is None or floats that fit `shape`."""
    if bias is None:
        return
    bias = bias if hasattr(bias, "dtype") else ops.convert_to_tensor(bias)
    dtype = keras.backend.standardize_dtype(bias.dtype)
    if "float" not in dtype:
        raise ValueError(
            f"`{name}` must hold floats, which are added to the scores; a mask of what to attend "
            f"to is another argument. Received: {name} of dtype {dtype}"
        )
    axes = zip(reversed(tuple(bias.shape)), reversed(shape), strict=False)
    fits = all(own in (1, length) or None in (own, length) for own, length in axes)
    if len(bias.shape) > len(shape) or not fits:
        raise ValueError(
            f"`{name}` must broadcast to {tuple(shape)}, the shape of the scores. "
            f"Received: {name}.shape={tuple(bias.shape)}"
        )


def add_score_bias(scores: Tensor, bias: Tensor | None, mask: Tensor | None) -> Tensor:
    """`scores` (..., T, S) plus `bias`; where the mask is False, the bias is neither used nor read.

    NaN and infinity at a masked pair thus reach neither the output nor a gradient.
    """
    if bias is None:
        return scores
    return scores + zero_masked(ops.cast(bias, scores.dtype), mask)
