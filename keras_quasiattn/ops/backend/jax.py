"""JAX: its own elementwise functions and sums, because those of Keras round float64 to float32."""

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

from jax import numpy as jnp
from jax.core import Tracer
from jax.numpy import arctan, cos, maximum, sin, tanh
from jax.ops import segment_max, segment_sum
from keras import ops

__all__ = [
    "add_all",
    "arctan",
    "cos",
    "cumsum",
    "loop",
    "maximum",
    "segment_max",
    "segment_sum",
    "sin",
    "tanh",
]

Tensor = Any

add_all = functools.partial(functools.reduce, operator.add)
cumsum = functools.partial(jnp.cumsum, axis=-1)
loop = ops.fori_loop


def runs_op_by_op() -> bool:
    """False: JAX compiles what it runs."""
    return False


def needs_static_shapes(x: Tensor) -> bool:
    """Whether `x` is being traced, by `jit` or for a gradient."""
    return isinstance(x, Tracer)


def in_turn(
    calls: Sequence[Callable[..., tuple[Tensor, ...]]], inputs: Sequence[Sequence[Tensor]]
) -> list[tuple[Tensor, ...]]:
    """The outputs of each call; JAX schedules them itself."""
    return [call(*given) for call, given in zip(calls, inputs, strict=True)]
