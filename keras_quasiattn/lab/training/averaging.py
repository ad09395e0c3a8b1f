"""Average the weights of the last checkpoints."""

from collections.abc import Sequence

import numpy as np

from keras_quasiattn.lab.training.checkpoints import Checkpoints


def average(checkpoints: Checkpoints, steps: Sequence[int]) -> list[np.ndarray]:
    """Average the trainable weights of several checkpoints.

    The sums are float64. Apart from them and the first checkpoint, only one checkpoint is in memory
    at a time.

    Args:
        checkpoints: the checkpoints of a run.
        steps: the updates whose checkpoints to average; at least one.

    Returns:
        One array per trainable weight, with its shape and dtype, in the model's order.

    Raises:
        UserError: one of the checkpoints is missing or damaged.

    Source: Vaswani et al. 2017, section 6.1, and Tensor2Tensor's `t2t-avg-all`.
    """
    first = checkpoints.read(steps[0], "trainable")
    sums = [array.astype(np.float64) for array in first]
    for step in steps[1:]:
        for total, array in zip(sums, checkpoints.read(step, "trainable"), strict=True):
            total += array
    return [
        (total / len(steps)).astype(array.dtype) for total, array in zip(sums, first, strict=True)
    ]
