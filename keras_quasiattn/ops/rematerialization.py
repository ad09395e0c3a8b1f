"""Rematerialization: intermediate tensors are discarded and recomputed for the gradient."""

from collections.abc import Callable, Sequence
from typing import Any

import keras

from keras_quasiattn.ops.backend import in_turn

Tensor = Any
Call = Callable[..., tuple[Tensor, ...]]


def rematerialize_in_turn(
    calls: Sequence[Call], inputs: Sequence[Sequence[Tensor]]
) -> list[tuple[Tensor, ...]]:
    """Runs calls so that only one has its intermediate tensors in memory, forward and backward.

    Each call keeps only its inputs and outputs; its gradient recomputes the rest. A TensorFlow
    graph runs every operation whose inputs are ready and would recompute all calls at once, so
    there each call waits for the previous one.

    Args:
        calls: functions that take tensors and return a tuple of tensors. Weights and masks are not
            arguments: a call holds its own.
        inputs: for each call, its floating-point tensors.

    Returns:
        For each call, its tuple of outputs.
    """
    return in_turn([keras.remat(call) for call in calls], inputs)
