"""Rematerialization: what a call computes on its way is thrown away and computed again for its gradient."""

from collections.abc import Callable, Sequence
from typing import Any

import keras

from keras_quasiattn.ops.backend import in_turn

Tensor = Any
Call = Callable[..., tuple[Tensor, ...]]


def rematerialize_in_turn(
    calls: Sequence[Call], inputs: Sequence[Sequence[Tensor]]
) -> list[tuple[Tensor, ...]]:
    """The outputs of each call, of which only one has its tensors in memory at a time, forward and backward.

    Only what a call takes and returns is kept; its gradient recomputes the rest. A TensorFlow graph, which
    runs whatever is ready, would recompute all of them at once, so there each waits for the one before.

    Args:
        calls: each takes tensors and returns a tuple of them; weights and masks it brings along.
        inputs: floating-point tensors of each.

    Returns:
        A tuple of each call.
    """
    return in_turn([keras.remat(call) for call in calls], inputs)
