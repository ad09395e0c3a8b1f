"""Check layer arguments; each error names the argument and the value received."""

import inspect
import math
import numbers
from collections.abc import Mapping
from typing import Any

import keras


def check(fits: Any, value: Any, name: str, expected: str) -> Any:
    """Return `value`; raise a `ValueError` that says what `name` must be if it does not fit."""
    if not fits:
        raise ValueError(f"`{name}` must be {expected}. Received: {name}={value!r}")
    return value


def check_shape(fits: Any, shape: Any, name: str, expected: str) -> None:
    """Raise a `ValueError` that says what `name` must have if its `shape` does not fit."""
    if not fits:
        raise ValueError(f"`{name}` must have {expected}. Received: {name}.shape={tuple(shape)}")


def is_number(value: Any) -> bool:
    """Return whether this is a real number, and not True or False."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def check_positive_integer(value: Any, name: str, *, optional: bool = False) -> Any:
    """Return `value`; raise a `ValueError` naming `name` unless it is a positive integer.

    If it is `optional`, it may be None.
    """
    fits = isinstance(value, int) and not isinstance(value, bool) and value >= 1
    return check(fits or (optional and value is None), value, name, "a positive integer")


def check_number(value: Any, name: str, *others: str | None) -> Any:
    """Return `value` as a float; raise a `ValueError` unless it is finite or one of `others`."""
    if is_number(value) and math.isfinite(value):
        return float(value)
    expected = " or ".join(["a finite number", *map(repr, others)])
    return check(value in others, value, name, expected)


def check_rate(value: Any, name: str) -> float:
    """Return `value` as a float; raise a `ValueError` naming `name` unless it is in [0, 1)."""
    fits = is_number(value) and 0 <= value < 1
    return float(check(fits, value, name, "a number in [0, 1)"))


def check_activation(value: Any, name: str) -> Any:
    """Return Keras' activation `value`; raise a `ValueError` naming `name` if there is none."""
    try:
        return keras.activations.get(value)
    except ValueError:
        raise ValueError(
            f"`{name}` must be a function or the name of one, such as 'relu', 'tanh' or 'linear'. "
            f"Received: {name}={value!r}"
        ) from None


def check_options(value: Any, name: str) -> dict[str, Any]:
    """Return a copy of a dictionary of options; {} for None."""
    check(value is None or isinstance(value, Mapping), value, name, "a dictionary or None")
    return dict(value or {})


def check_layer(value: Any, name: str) -> keras.Layer:
    """Return `value`; raise a `ValueError` naming `name` unless it is a Keras layer or model."""
    return check(isinstance(value, keras.Layer), value, name, "a Keras layer or model")


def check_sequence(shape: tuple[int | None, ...], name: str) -> int:
    """Return the width D of `shape` (B, L, D).

    Raises a `ValueError` naming `name` if the rank is not 3 or the width is unknown.
    """
    width = shape[-1] if len(shape) == 3 else None
    if width is None:
        raise ValueError(
            f"`{name}` must have shape (batch, length, width) with a known width. "
            f"Received: {name}.shape={tuple(shape)}"
        )
    return width


def check_projected_shapes(shapes: dict[str, tuple[int | None, ...] | None]) -> None:
    """Check the shapes of a multi-head layer's inputs, "query" first; None stands for no input.

    Raises a `ValueError` naming the first input whose features are unknown, whose rank is below 3,
    or whose rank differs from that of "query".
    """
    rank = len(shapes["query"] or ())
    for name, shape in shapes.items():
        if shape is None:
            continue
        if len(shape) < 3 or len(shape) != rank:
            found = ", ".join(f"{one}.shape={of and tuple(of)}" for one, of in shapes.items())
            raise ValueError(
                f"`{name}` must have shape (batch, length, ..., features), with as many dimensions "
                f"as `query`. Received: {found}"
            )
        if shape[-1] is None:
            raise ValueError(
                f"The last dimension of `{name}` must be known. "
                f"Received: {name}.shape={tuple(shape)}"
            )


def call_arguments(layer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call of `layer` by name, with its defaults."""
    bound = inspect.signature(type(layer).call).bind(layer, *args, **kwargs)
    bound.apply_defaults()
    return bound.arguments
