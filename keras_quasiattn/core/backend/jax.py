"""JAX: its own elementwise functions and sums, because Keras' versions round float64 to float32."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax import default_backend, device_count
from jax import numpy as jnp
from jax.core import Tracer
from jax.lax import stop_gradient
from jax.numpy import arctan, cos, maximum, sign, sin, tanh
from jax.ops import segment_max, segment_sum
from keras import ops

__all__ = [
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

cumsum = functools.partial(jnp.cumsum, axis=-1)


def absolute(x: Tensor) -> Tensor:
    """Return |x| with derivative 0 at 0, where `jax.numpy.abs` has 1."""
    return x * stop_gradient(sign(x))


def with_gradient(
    compute: Callable[..., tuple[Tensor, ...]], gradient: Callable[..., tuple[Tensor, ...]]
) -> Callable[..., tuple[Tensor, ...]]:
    """Return `compute` with gradients from `gradient`; `jax.jvp` is an error."""

    def both(*tensors: Tensor) -> tuple[tuple[Tensor, ...], Callable[[Any], Any]]:
        axes = _varying_axes(tensors)

        def slopes(upstreams: Any) -> tuple[Tensor | None, ...]:
            found = _varying_over(axes, gradient(tensors, upstreams))
            return *found, *[None] * (len(tensors) - len(found))

        return compute(*tensors), slopes

    found: Callable[..., tuple[Tensor, ...]] = jax.custom_gradient(both)
    # Under `shard_map` a tensor must vary over the same axes as its gradient.
    return lambda *tensors: found(*_varying_over(_varying_axes(tensors), tensors))


def loop(lower: Any, upper: Any, body: Callable[[Any, Any], Any], start: Any) -> Any:
    """Run `keras.ops.fori_loop`, also under `shard_map`.

    There the start must vary over the axes that the results vary over, which zeros do not.
    """
    if jax.sharding.get_abstract_mesh().manual_axes:
        given, structure = jax.tree.flatten(start)
        found = jax.tree.leaves(jax.eval_shape(body, lower, start))
        pairs = zip(found, given, strict=True)
        given = [_varying_over(_varying_axes([result]), (x,))[0] for result, x in pairs]
        start = jax.tree.unflatten(structure, given)
    return ops.fori_loop(lower, upper, body, start)


def _varying_axes(tensors: Sequence[Any]) -> set[Any]:
    """Return the axes of a mesh over which any of the tensors varies, under `shard_map`."""
    if not jax.sharding.get_abstract_mesh().manual_axes:
        return set()
    found = (x if isinstance(x, jax.ShapeDtypeStruct) else jax.typeof(x) for x in tensors)
    return {axis for one in found for axis in one.manual_axis_type.varying}


def _varying_over(axes: set[Any], tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Return tensors that vary over these axes of a mesh."""
    if not axes:
        return tensors
    return tuple(jax.lax.pcast(x, tuple(axes - _varying_axes([x])), to="varying") for x in tensors)


def add_rows(total: Tensor, x: Tensor) -> Tensor:
    """Return the sum total + Σ_n x[n]."""
    return total + x.sum(axis=0)


def on_accelerator(x: Tensor) -> bool:
    """Return whether JAX computes on a GPU or TPU by default; a traced `x` has no device."""
    return default_backend() != "cpu"


def runs_op_by_op() -> bool:
    """Return False: JAX compiles what it runs."""
    return False


def obstacle_to_loops(x: Tensor, features: int) -> str | None:
    """Say why loops cannot run: JAX computes on a platform other than CPUs."""
    if default_backend() != "cpu":
        return f"runs only where JAX computes on CPUs. Received: backend {default_backend()!r}"
    return None


def keeps_loops(training: Callable[[], bool]) -> bool:
    """Return whether there is one device: XLA cannot divide loops among several.

    A program that is exported, or lowered for another platform, computes tiles of tensors instead.
    """
    return device_count() == 1


def known_content(x: Tensor) -> np.ndarray | None:
    """Return the array of a tensor on the CPU that is not traced."""
    return None if isinstance(x, Tracer) or on_accelerator(x) else np.asarray(x)


def may_branch(x: Tensor) -> bool:
    """Return False: JAX fuses both branches, and eagerly it compiles `cond` at every call."""
    return False


def needs_static_shapes(x: Tensor) -> bool:
    """Return whether `x` is being traced, by `jit` or for a gradient."""
    return isinstance(x, Tracer)


def map_tiles(
    function: Callable[..., Tensor], count: Any, tiles: dict[str, Tensor], shared: dict[str, Tensor]
) -> Tensor:
    """Map a function over tiles; `jax.checkpoint` recomputes each in the backward pass."""

    def of_tile(given: tuple[Tensor, dict[str, Tensor]]) -> Tensor:
        index, own = given
        return function(index, **own, **shared)

    return jax.lax.map(jax.checkpoint(of_tile), (jnp.arange(count), tiles))
