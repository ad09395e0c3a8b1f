"""Which implementation of CoDA "auto" means, and where compiled CPU loops may be used."""

import importlib.util
import math
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_quasiattn.ops.backend import runs_op_by_op
from keras_quasiattn.ops.checks import check_choice
from keras_quasiattn.ops.recording import is_recording

Tensor = Any

CODA_IMPLEMENTATIONS = ("auto", "reference", "blockwise", "compiled")

# Up to here the definition is quickest: for "blockwise" pairs of one batch and head, which are one tile of keys for as
# many queries; for "compiled" pairs of all batches and heads, as a call of compiled loops takes about a millisecond.
_PAIRS_OF_ONE = 32 * 32
_PAIRS_OF_ALL = 8192
_INSTALLED = importlib.util.find_spec("numba") is not None


def compute_by_choice(
    compute: Callable[[str], Any],
    implementation: str,
    query: Tensor,
    key: Tensor,
    *,
    alpha: float | Tensor,
    beta: float | Tensor,
    training: bool | None,
) -> Any:
    """What `compute` gives for "reference", "blockwise" or "compiled", as `implementation` says or "auto" chooses.

    In a TensorFlow graph that does not know the sizes, "auto" chooses when the graph runs.

    Args:
        compute: takes the name of an implementation.
        implementation: one of `CODA_IMPLEMENTATIONS`.
        query: (..., T, D).
        key: (..., S, D).
        alpha: factor of the similarity.
        beta: factor of the distance.
        training: whether this is a step of training.

    Raises:
        ValueError: an unknown name, or "compiled" where it cannot be.
    """
    check_choice(implementation, CODA_IMPLEMENTATIONS, "implementation")
    along_keys = any(
        tuple(getattr(factor, "shape", ()))[-1:] not in ((), (1,)) for factor in (alpha, beta)
    )
    obstacle = _obstacle(along_keys)
    if implementation == "compiled" and obstacle:
        raise ValueError(f"`implementation='compiled'` needs {obstacle}.")
    if implementation != "auto":
        return compute(implementation)
    if 1 in (query.shape[-2], key.shape[-2]):  # the difference is no larger than its terms
        return compute("reference")

    for_many = "blockwise" if obstacle or not _stays_in_this_process(training) else "compiled"
    counted = (
        slice(-2) if for_many == "compiled" else slice(0)
    )  # of which leading axes the pairs count
    limit = _PAIRS_OF_ALL if for_many == "compiled" else _PAIRS_OF_ONE

    def pairs(query_shape: Any, key_shape: Any) -> Any:
        return math.prod((query_shape[-2], key_shape[-2], *query_shape[counted]))

    if None not in (query.shape[-2], key.shape[-2], *query.shape[counted]):
        return compute("reference" if pairs(query.shape, key.shape) <= limit else for_many)
    if (
        is_recording() or not runs_op_by_op()
    ):  # what one branch records is not to be had outside of it
        return compute(for_many)
    # In floating point: the pairs of a long batch are more than integers of 32 bits count.
    shapes = ([ops.cast(size, "float32") for size in ops.shape(x)] for x in (query, key))
    return ops.cond(
        pairs(*shapes) <= limit, lambda: compute("reference"), lambda: compute(for_many)
    )


def _stays_in_this_process(training: bool | None) -> bool:
    from keras_quasiattn.ops.backend.tensorflow import stays_in_this_process

    return stays_in_this_process(bool(training))


def _obstacle(factors_along_keys: bool) -> str | None:
    """What compiled loops lack here, if anything."""
    if keras.backend.backend() != "tensorflow":
        return f"the TensorFlow backend. Received: {keras.backend.backend()}"
    if not _INSTALLED:
        return "Numba: pip install 'keras-quasiattn[compiled]'"
    if factors_along_keys:
        return "`alpha` and `beta` that do not vary along S"
    if not runs_op_by_op():
        return "a graph that XLA does not compile"
    from keras_quasiattn.ops.backend.tensorflow import has_accelerator

    return "a machine without a GPU or TPU" if has_accelerator() else None
