"""Which implementation of CoDA "auto" means, and where compiled CPU loops may be used."""

import importlib.util
import math
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_quasiattn.ops.composition import check_choice
from keras_quasiattn.ops.executor import runs_op_by_op
from keras_quasiattn.ops.recording import is_recording

Tensor = Any

IMPLEMENTATIONS = ("auto", "reference", "blockwise", "compiled")

# Up to here the definition is quickest: for "blockwise" pairs of one batch and head, which are one tile of keys for as
# many queries; for "compiled" pairs of all batches and heads, as a call of compiled loops takes about a millisecond.
_PAIRS_OF_ONE = 32 * 32
_PAIRS_OF_ALL = 8192
_INSTALLED = importlib.util.find_spec("numba") is not None
_TENSORFLOW = keras.backend.backend() == "tensorflow"


def choose_implementation(
    implementation: str,
    query: Tensor,
    key: Tensor,
    *,
    alpha: float | Tensor,
    beta: float | Tensor,
    training: bool | None,
) -> str:
    """What "auto" means here; other names are returned as they are.

    Args:
        implementation: one of `IMPLEMENTATIONS`.
        query: (..., T, D).
        key: (..., S, D).
        alpha: factor of the similarity.
        beta: factor of the distance.
        training: whether this is a step of training.

    Raises:
        ValueError: an unknown name, or "compiled" where it cannot be.
    """
    check_choice(implementation, IMPLEMENTATIONS, "implementation")
    along_keys = any(tuple(getattr(factor, "shape", ()))[-1:] not in ((), (1,)) for factor in (alpha, beta))
    obstacle = _obstacle(along_keys)
    if implementation == "compiled" and obstacle:
        raise ValueError(f"`implementation='compiled'` needs {obstacle}.")
    if implementation != "auto":
        return implementation
    if 1 in (query.shape[-2], key.shape[-2]):  # the difference is no larger than its terms
        return "reference"
    for_many = _choose_for_many_pairs(obstacle, training)
    return "reference" if _has_few_pairs(for_many, query.shape, key.shape) else for_many


def _choose_for_many_pairs(obstacle: str | None, training: bool | None) -> str:
    if obstacle:
        return "blockwise"
    from keras_quasiattn.ops.executor_tensorflow import stays_in_this_process

    return "compiled" if stays_in_this_process(bool(training)) else "blockwise"


def _has_few_pairs(for_many: str, query_shape: Any, key_shape: Any) -> Any:
    """Whether the definition is quicker than `for_many`: a tensor where sizes are, None where they are unknown."""
    sizes = (query_shape[-2], key_shape[-2], *(query_shape[:-2] if for_many == "compiled" else ()))
    if None in sizes:
        return None
    return math.prod(sizes) <= (_PAIRS_OF_ALL if for_many == "compiled" else _PAIRS_OF_ONE)


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
    """What `compute` gives for the chosen implementation; arguments and errors as for `choose_implementation`.

    In a graph that does not know the sizes, "auto" chooses when it runs.
    """
    chosen = choose_implementation(implementation, query, key, alpha=alpha, beta=beta, training=training)
    known = chosen == "reference" or _has_few_pairs(chosen, query.shape, key.shape) is not None
    decided = implementation != "auto" or known or not runs_op_by_op()
    if decided or is_recording():  # what one branch records is not to be had outside of it
        return compute(chosen)
    # In floating point: the pairs of a long batch are more than integers of 32 bits count.
    shapes = (tuple(ops.cast(size, "float32") for size in ops.shape(x)) for x in (query, key))
    few = _has_few_pairs(chosen, *shapes)
    return ops.cond(few, lambda: compute("reference"), lambda: compute(chosen))


def _obstacle(factors_along_keys: bool) -> str | None:
    """What compiled loops lack here, if anything."""
    if not _TENSORFLOW:
        return f"the TensorFlow backend. Received: {keras.backend.backend()}"
    if not _INSTALLED:
        return "Numba: pip install 'keras-quasiattn[compiled]'"
    if factors_along_keys:
        return "`alpha` and `beta` that do not vary along S"
    if not runs_op_by_op():
        return "a graph that XLA does not compile"
    from keras_quasiattn.ops.executor_tensorflow import has_accelerator

    return "a machine without a GPU or TPU" if has_accelerator() else None
