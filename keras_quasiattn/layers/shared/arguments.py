"""Checks of layer arguments; each error names the argument and the value received."""

import numbers
from typing import Any

import numpy as np

from keras_quasiattn.ops.masking import as_boolean_mask, check_mask

Tensor = Any
PAIRS = "`attention_mask` of a multi-head layer or a Transformer block"


def check_positive_integer(value: Any, name: str) -> int:
    """Returns `value`; raises a `ValueError` naming `name` unless it is a positive integer."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"`{name}` must be a positive integer. Received: {name}={value!r}")
    return value


def check_number(value: Any, name: str, *others: str | None) -> Any:
    """Returns `value`; raises a `ValueError` unless it is a number or one of `others`."""
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not is_number and value not in others:
        expected = " or ".join(["a number", *map(repr, others)])
        raise ValueError(f"`{name}` must be {expected}. Received: {name}={value!r}")
    return value


def check_rate(value: Any, name: str) -> float:
    """Returns `value`; raises a `ValueError` naming `name` unless it is a number in [0, 1)."""
    if not isinstance(value, (int, float)) or not 0 <= value < 1:
        raise ValueError(f"`{name}` must be a number in [0, 1). Received: {name}={value!r}")
    return value


def check_sequence(shape: tuple[int | None, ...], name: str) -> int:
    """Returns the width D of `shape` (B, L, D).

    Raises a `ValueError` naming `name` if the rank is not 3 or the width is unknown.
    """
    width = shape[-1] if len(shape) == 3 else None
    if width is None:
        raise ValueError(
            f"`{name}` must have shape (batch, length, width) with a known width. "
            f"Received: {name}.shape={tuple(shape)}"
        )
    return width


def check_sequence_mask(mask: Any, name: str, x: Tensor | None, pairs: str = PAIRS) -> None:
    """Checks a mask that says which positions are real.

    Raises a `ValueError` naming `name` unless `mask` is None, or boolean (or 0/1 integer) with the
    axes of `x` (B, L, ..., features) before the last, or (B, L) if there is no `x`. An axis may
    have length 1. `pairs` names the argument for a mask of pairs.
    """
    check_mask(mask, name)
    if mask is None:
        return
    shape = tuple(np.shape(mask))
    expected = (None, None) if x is None else tuple(x.shape[:-1])
    if len(shape) != len(expected) or not _fits(shape, expected):
        here = "" if x is None else f", here {expected}"
        raise ValueError(
            f"`{name}` must have shape (batch, length){here}: which positions are real. Which "
            f"pairs of positions attend belongs in {pairs}. Received: {name}.shape={shape}"
        )


def sequence_mask(
    mask: Tensor | None,
    name: str,
    x: Tensor | None,
    pairs: str = PAIRS,
    *,
    reads_implicit: bool = False,
) -> Tensor | None:
    """Returns `mask` as a boolean tensor, or None, after `check_sequence_mask`.

    With `reads_implicit`, a mask of None is the one that Keras attached to `x`. Keras itself passes
    it only to calls with one tensor and an argument `mask`, or with several and `<argument>_mask`.
    """
    if mask is None and reads_implicit:
        mask = getattr(x, "_keras_mask", None)
    check_sequence_mask(mask, name, x, pairs)
    return as_boolean_mask(mask, name)


def check_attention_mask(
    mask: Any, name: str, scores_shape: tuple[Any, ...], positions: str, axes: int = 1
) -> None:
    """Checks a mask that says which query attends to which key.

    Raises a `ValueError` naming `name` unless `mask` is None, or boolean (or 0/1 integer) with the
    last axes of `scores_shape` (B, ..., N, T…, S…) and none or some of the first. An axis may have
    length 1. T… and S… are `axes` each; `positions` names the arguments for masks of positions.
    """
    check_mask(mask, name)
    if mask is None:
        return
    shape, count = tuple(np.shape(mask)), 2 * axes
    leading = len(shape) - count
    expected = (*scores_shape[: max(leading, 0)], *scores_shape[-count:])
    if not 0 <= leading <= len(scores_shape) - count or not _fits(shape, expected):
        raise ValueError(
            f"`{name}` must have shape (T, S), (batch, T, S) or (batch, heads, T, S) with (T, S) = "
            f"{tuple(scores_shape[-count:])} and scores of {tuple(scores_shape)}. Which positions "
            f"are real belongs in {positions}. Received: {name}.shape={shape}"
        )


def _fits(shape: tuple[Any, ...], expected: tuple[Any, ...]) -> bool:
    known = [
        pair
        for pair in zip(shape, expected, strict=True)
        if all(isinstance(length, int) for length in pair)
    ]
    return all(own in (1, length) for own, length in known)


def check_projected_shapes(shapes: dict[str, tuple[int | None, ...] | None]) -> None:
    """Checks the input shapes of a multi-head layer.

    Raises a `ValueError` naming the first input whose features are unknown, whose rank is below 3,
    or whose rank differs from that of "query". `shapes` has "query" first; None stands for an
    absent input.
    """
    rank = len(shapes["query"] or ())
    for name, shape in shapes.items():
        if shape is None:
            continue
        if len(shape) < 3 or len(shape) != rank:
            raise ValueError(
                f"`{name}` must have shape (batch, length, ..., features), with as many dimensions "
                "as `query`. Received: "
                f"""{
                    ", ".join(
                        f"{name}.shape={shape and tuple(shape)}" for name, shape in shapes.items()
                    )
                }"""
            )
        if shape[-1] is None:
            raise ValueError(
                f"The last dimension of `{name}` must be known. "
                f"Received: {name}.shape={tuple(shape)}"
            )
