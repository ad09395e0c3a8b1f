"""What JAX needs to be asked before a tensor's size may depend on its content."""

from typing import Any

from jax.core import Tracer
from jax.ops import segment_max, segment_sum

__all__ = ["needs_static_shapes", "segment_max", "segment_sum"]


def needs_static_shapes(x: Any) -> bool:
    """Whether `x` is being traced, by `jit` or for a gradient."""
    return isinstance(x, Tracer)
