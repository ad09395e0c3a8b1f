"""Where compiled loops may run, and for how much work: calling them takes about a millisecond."""

import importlib.util
import math
from collections.abc import Callable, Sequence
from typing import Any

from keras import ops

from keras_quasiattn.core import recording
from keras_quasiattn.core.backend import (
    keeps_loops,
    obstacle_to_loops,
    on_accelerator,
    runs_op_by_op,
)
from keras_quasiattn.core.tensors import in_training_call
from keras_quasiattn.core.tiling import sizes_are_symbolic

Tensor = Any
# The installed compilers: Numba for CPUs, Triton for GPUs.
INSTALLED = {name for name in ("numba", "triton") if importlib.util.find_spec(name)}


def loops_may_run(*tensors: Tensor) -> bool:
    """Return whether the current call may compute from `tensors` with loops on the CPU."""
    return (
        "numba" in INSTALLED
        and not sizes_are_symbolic(*tensors)
        and not any(on_accelerator(x) or obstacle_to_loops(x, 0) for x in tensors)
        and keeps_loops(in_training_call)
    )


def by_amount(
    axes: Sequence[tuple[Tensor, int]],
    limit: int,
    few: Callable[..., Any],
    many: Callable[..., Any],
    *given: Tensor,
) -> Any:
    """Call `few` if the lengths of all (tensor, axis) multiply to at most `limit`, or else `many`.

    Both take the tensors `given`. In a TensorFlow graph with unknown sizes, the graph chooses when
    it runs; under XLA or while recording, it takes `many`.
    """
    lengths = [x.shape[axis] for x, axis in axes]
    if None not in lengths:
        return few(*given) if math.prod(lengths) <= limit else many(*given)
    # What one branch of `ops.cond` records cannot be used outside of it.
    if recording.active.get() is not None or not runs_op_by_op():
        return many(*given)
    # As floats: the product may overflow 32-bit integers.
    amount = math.prod(ops.cast(ops.shape(x)[axis], "float32") for x, axis in axes)
    # Copied, because a gradient defined in a branch may only use tensors of that branch.
    return ops.cond(
        amount <= limit, lambda: few(*map(ops.copy, given)), lambda: many(*map(ops.copy, given))
    )
