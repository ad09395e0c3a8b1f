"""Shapes and products of tensors, and what holds while a call runs, such as that it trains."""

import contextlib
import math
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from typing import Any, TypeVar

import keras
import numpy as np
from keras import ops

Tensor = Any
_T = TypeVar("_T")
_training: ContextVar[bool] = ContextVar("training_call", default=False)


@contextlib.contextmanager
def holding(variable: ContextVar[_T], value: _T) -> Iterator[None]:
    """Give a context variable a value in the `with` block."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def training_call(training: bool | None) -> contextlib.AbstractContextManager[None]:
    """Mark the calls in the `with` block as training calls or not; None changes nothing.

    Outside such blocks no call is a training call. Results never depend on it.
    """
    return holding(_training, _training.get() if training is None else bool(training))


def in_training_call() -> bool:
    """Return whether the innermost `training_call` block marks training."""
    return _training.get()


def check_choice(value: Any, choices: Any, name: str) -> Any:
    """Return `value`; raise a `ValueError` naming `name` unless it is one of `choices`."""
    if value not in tuple(choices):
        expected = ", ".join(repr(choice) for choice in choices)
        raise ValueError(f"`{name}` must be one of {expected}. Received: {name}={value!r}")
    return value


def check_rank(x: Tensor, name: str) -> None:
    """Raise a `ValueError` unless `x` is (..., length, features)."""
    if len(x.shape) < 2:
        raise ValueError(
            f"`{name}` must have shape (..., length, features). Received shape {tuple(x.shape)}."
        )


def check_features(x: Tensor, y: Tensor, x_name: str, y_name: str) -> None:
    """Raise a `ValueError` unless both are (..., length, D) with the same D."""
    check_rank(x, x_name)
    check_rank(y, y_name)
    if None not in (x.shape[-1], y.shape[-1]) and x.shape[-1] != y.shape[-1]:
        raise ValueError(
            f"`{x_name}` and `{y_name}` must have the same number of features (last dimension). "
            f"Received {x_name}.shape={tuple(x.shape)} and {y_name}.shape={tuple(y.shape)}."
        )


def check_lengths(key: Tensor, value: Tensor, key_name: str, value_name: str) -> None:
    """Raise a `ValueError` unless `value` has the length of `key`."""
    if len(value.shape) < 2 or (
        None not in (key.shape[-2], value.shape[-2]) and key.shape[-2] != value.shape[-2]
    ):
        raise ValueError(
            f"`{value_name}` must have shape (..., length, features) with the same length as "
            f"`{key_name}`. Received {value_name}.shape={tuple(value.shape)} and "
            f"{key_name}.shape={tuple(key.shape)}."
        )


def check_per_position(number: Tensor, x: Tensor, name: str, x_name: str) -> None:
    """Raise a `ValueError` unless `number` (..., length) has the length of `x`."""
    lengths = [*number.shape[-1:], x.shape[-2]]
    if len(lengths) < 2 or (None not in lengths and lengths[0] not in (1, lengths[1])):
        raise ValueError(
            f"`{name}` must have shape (..., length) with the length of `{x_name}`. Received "
            f"{name}.shape={tuple(number.shape)} and {x_name}.shape={tuple(x.shape)}."
        )


def checked_inputs(
    query: Tensor, key: Tensor, value: Tensor, dropout: float, dropout_seed: Tensor | None
) -> list[Tensor]:
    """Return queries, keys and values as floats.

    Raises a `ValueError` for sizes that do not match, a rate of dropout outside [0, 1), or one
    above 0 without a seed.
    """
    query, key, value = map(as_floats, (query, key, value))
    check_features(query, key, "query", "key")
    check_lengths(key, value, "key", "value")
    if not 0 <= dropout < 1:
        raise ValueError(f"`dropout` must be in [0, 1). Received: dropout={dropout}")
    if dropout and dropout_seed is None:
        raise ValueError(
            "`dropout` above 0 needs `dropout_seed`: pass "
            "`keras.random.SeedGenerator(seed).next()`. "
            f"Received: dropout={dropout}, dropout_seed=None"
        )
    return [query, key, value]


def are_few(axes: Sequence[tuple[Tensor, int]], limit: int) -> bool:
    """Return whether all lengths of (tensor, axis) are known and multiply to at most `limit`."""
    lengths = [x.shape[axis] for x, axis in axes]
    return all(isinstance(one, int) for one in lengths) and math.prod(lengths) <= limit


def check_broadcast(x: Tensor, shape: Sequence[Any], name: str, of: str) -> None:
    """Raise a `ValueError` naming `name` unless `x` broadcasts to `shape` (None: any length).

    `x` may be a number. `of` completes "the shape of …" in the message.
    """
    own = tuple(np.shape(x))
    if not broadcasts(own, shape):
        raise ValueError(
            f"`{name}` must broadcast to {tuple(shape)}, the shape of {of}. "
            f"Received: {name}.shape={own}"
        )


def check_broadcast_together(x: Tensor, y: Tensor, x_name: str, y_name: str) -> None:
    """Raise a `ValueError` naming both unless `x`, which may be a number, and `y` broadcast."""
    own, other = tuple(np.shape(x)), tuple(y.shape)
    if any(1 not in pair and pair[0] != pair[1] for pair in _known_lengths(own, other)):
        raise ValueError(
            f"`{x_name}` must broadcast against `{y_name}`. "
            f"Received: {x_name}.shape={own} and {y_name}.shape={other}"
        )


def broadcasts(own: Sequence[Any], shape: Sequence[Any]) -> bool:
    """Return whether the shape `own` broadcasts to `shape`, as far as lengths are known."""
    pairs = _known_lengths(own, shape)
    return len(own) <= len(shape) and all(one in (1, length) for one, length in pairs)


def _known_lengths(own: Sequence[Any], other: Sequence[Any]) -> list[tuple[int, int]]:
    """Return the lengths of each axis that both shapes have and know, from the last axis on."""
    axes = zip(reversed(tuple(own)), reversed(tuple(other)), strict=False)
    return [pair for pair in axes if all(isinstance(length, int) for length in pair)]


def as_floats(x: Tensor) -> Tensor:
    """Return `x` as a tensor of floats; integers and truth values become Keras' float type."""
    x = ops.convert_to_tensor(x)
    is_float = "float" in keras.backend.standardize_dtype(x.dtype)
    return x if is_float else ops.cast(x, keras.config.floatx())


def compute_dtype(*tensors: Tensor) -> str:
    """Return the dtype to compute in: float64 if all inputs are float64, otherwise float32."""
    dtypes = [keras.backend.standardize_dtype(tensor.dtype) for tensor in tensors]
    return "float64" if all(dtype == "float64" for dtype in dtypes) else "float32"


def as_dtype(value: Any, dtype: str) -> Tensor:
    """Return a number or tensor as a tensor of `dtype`, without rounding to float32 first."""
    if isinstance(value, (int, float)):
        return ops.convert_to_tensor(value, dtype=dtype)
    return ops.cast(value, dtype)


def with_rank(x: Tensor, rank: int) -> Tensor:
    """Return `x` with leading axes of length 1 if it has fewer than `rank` axes."""
    missing = tuple(range(rank - len(x.shape)))
    return ops.expand_dims(x, missing) if missing else x


def weighted_sum(equation: str, weights: Tensor, value: Tensor) -> Tensor:
    """Compute an einsum in the dtype of the weights; return it in the dtype of the values."""
    return ops.cast(ops.einsum(equation, weights, ops.cast(value, weights.dtype)), value.dtype)


def dot_products(query: Tensor, key: Tensor, scale: float = 1.0) -> Tensor:
    """Return E = scale · query · keyᵀ, (..., T, S), in float32 for 16-bit inputs."""
    dtype = compute_dtype(query, key)
    query = ops.cast(query, dtype) * as_dtype(scale, dtype)
    # einsum, not matmul: on JAX and PyTorch `ops.matmul` rounds float64 to float32.
    return ops.einsum("...td,...sd->...ts", query, ops.cast(key, dtype))


def project(x: Tensor, kernel: Tensor) -> Tensor:
    """Multiply x by a kernel of the same dtype: (..., D) and (D, U) → (..., U), or (D,) → (...).

    >>> np.asarray(project(np.array([[2.0, 3.0]]), np.array([1.0, 10.0]))).tolist()
    [32.0]
    """
    # A single product of two matrices. "...d,du->...u" is slow: for the kernel's gradient,
    # TensorFlow creates a (..., D, U) tensor and then sums it. einsum, not matmul: on JAX and
    # PyTorch `ops.matmul` rounds float64 to float32.
    rows = ops.reshape(x, (-1, x.shape[-1]))
    product = ops.einsum("rd,du->ru", rows, ops.reshape(kernel, (x.shape[-1], -1)))
    return ops.reshape(product, (*ops.shape(x)[:-1], *kernel.shape[1:]))


def per_position(x: Tensor, kernel: Any) -> Tensor:
    """Return x·kernel, one number per position and head, in the kernel's dtype.

    Heads (..., N, L, H) with a kernel (H, N) give (..., N, L), and (..., L, H) with (H,) (..., L).
    """
    # Not einsum, where LiteRT's converter takes an unknown L for 1, nor `ops.matmul`: see above.
    columns = ops.expand_dims(ops.transpose(kernel), -1)  # (N, H, 1) or (H, 1)
    return ops.squeeze(ops.cast(x, columns.dtype) @ columns, -1)
