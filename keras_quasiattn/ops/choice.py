"""Which implementation of CoDA "auto" means, and where compiled CPU loops may be used."""

import importlib.util
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_quasiattn.ops.composition import check_choice
from keras_quasiattn.ops.executor import runs_op_by_op
from keras_quasiattn.ops.recording import is_recording

Tensor = Any

IMPLEMENTATIONS = ("auto", "reference", "blockwise", "compiled")

# One tile of keys for as many queries. With a length of 1 the difference is no larger than its terms.
_FEW_PAIRS = 32 * 32
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
    lengths = query.shape[-2], key.shape[-2]
    if 1 in lengths or (None not in lengths and lengths[0] * lengths[1] <= _FEW_PAIRS):
        return "reference"
    if obstacle:
        return "blockwise"
    from keras_quasiattn.ops.executor_tensorflow import stays_in_this_process

    return "compiled" if stays_in_this_process(bool(training)) else "blockwise"


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

    In a graph that does not know the lengths, "auto" chooses when it runs: few pairs are quickest by the definition.
    """
    chosen = choose_implementation(implementation, query, key, alpha=alpha, beta=beta, training=training)
    known = None not in (query.shape[-2], key.shape[-2])
    decided = implementation != "auto" or chosen == "reference" or known or not runs_op_by_op()
    if decided or is_recording():  # what one branch records is not to be had outside of it
        return compute(chosen)
    few = ops.shape(query)[-2] * ops.shape(key)[-2] <= _FEW_PAIRS
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
