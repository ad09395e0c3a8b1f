"""Argument checks. Each error names the argument, the value received and what is valid."""

from typing import Any

Tensor = Any


def check_choice(value: Any, choices: Any, name: str) -> None:
    """Raises a `ValueError` unless `value` is one of `choices`."""
    if value not in tuple(choices):
        expected = ", ".join(repr(choice) for choice in choices)
        raise ValueError(f"`{name}` must be one of {expected}. Received: {name}={value!r}")


def check_rank(x: Tensor, name: str) -> None:
    """Raises a `ValueError` unless `x` is (..., length, features)."""
    if len(x.shape) < 2:
        raise ValueError(
            f"`{name}` must have shape (..., length, features). Received shape {tuple(x.shape)}."
        )


def check_features(x: Tensor, y: Tensor, x_name: str, y_name: str) -> None:
    """Raises a `ValueError` unless both are (..., length, D) with the same D."""
    check_rank(x, x_name)
    check_rank(y, y_name)
    if None not in (x.shape[-1], y.shape[-1]) and x.shape[-1] != y.shape[-1]:
        raise ValueError(
            f"`{x_name}` and `{y_name}` must have the same number of features (last dimension). "
            f"Received {x_name}.shape={tuple(x.shape)} and {y_name}.shape={tuple(y.shape)}."
        )


def check_lengths(
    key: Tensor, value: Tensor, key_name: str = "key", value_name: str = "value"
) -> None:
    """Raises a `ValueError` unless `value` has the length of `key`."""
    if len(value.shape) < 2 or (
        None not in (key.shape[-2], value.shape[-2]) and key.shape[-2] != value.shape[-2]
    ):
        raise ValueError(
            f"`{value_name}` must have shape (..., length, features) with the same length as "
            f"`{key_name}`. Received {value_name}.shape={tuple(value.shape)} and "
            f"{key_name}.shape={tuple(key.shape)}."
        )


def check_dropout(rate: float, seed: Tensor | None) -> None:
    """Raises a `ValueError` for a rate outside [0, 1), or a rate above 0 without a seed."""
    if not 0 <= rate < 1:
        raise ValueError(f"`dropout` must be in [0, 1). Received: dropout={rate}")
    if rate and seed is None:
        raise ValueError(
            "`dropout` above 0 needs `dropout_seed`: pass "
            "`keras.random.SeedGenerator(seed).next()`. "
            f"Received: dropout={rate}, dropout_seed=None"
        )
