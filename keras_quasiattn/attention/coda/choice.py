"""Which implementation of CoDA "auto" chooses, and where compiled CPU loops may run."""

from collections.abc import Callable
from typing import Any

from keras_quasiattn.attention import by_rows
from keras_quasiattn.attention.coda.composition import Pairs
from keras_quasiattn.core.backend import (
    keeps_loops,
    obstacle_to_loops,
    on_accelerator,
    runs_op_by_op,
)
from keras_quasiattn.core.compiled.choice import INSTALLED, by_amount
from keras_quasiattn.core.tensors import check_choice, in_training_call
from keras_quasiattn.core.tiling import sizes_are_symbolic

CODA_IMPLEMENTATIONS = ("auto", "reference", "blockwise", "compiled")

# Up to these numbers of pairs, "reference" is fastest. Calling compiled loops takes about a
# millisecond, so where they run the limit is on the pairs of all batches and heads; elsewhere it is
# on those of one head.
_PAIRS_OF_ONE = 32 * 32
_PAIRS_OF_ALL = 8192
_OTHERS = "Use 'auto' or 'blockwise'."


def compute_by_choice(
    compute: Callable[[str], Any], implementation: str, pairs: Pairs, value_features: int = 0
) -> Any:
    """Call `compute` with the name of an implementation; "auto" chooses one for these pairs.

    In a TensorFlow graph with unknown sizes, "auto" chooses when the graph runs; under XLA or while
    recording, it takes the implementation for many pairs. `value_features` is the number of
    features of all values together. An unknown name, or "compiled" where it cannot run, is a
    `ValueError`.
    """
    check_choice(implementation, CODA_IMPLEMENTATIONS, "implementation")
    query, key = pairs.query, pairs.key
    obstacle = _obstacle(pairs, value_features)
    if implementation == "compiled" and obstacle:
        raise ValueError(f"`implementation='compiled'` {obstacle}")
    if implementation != "auto":
        return compute(implementation)
    # With T or S of 1, the (..., T, S, D) difference is no larger than query and key. Symbolic
    # sizes cannot be compared or divided into tiles.
    if 1 in (query.shape[-2], key.shape[-2]) or sizes_are_symbolic(query, key):
        return compute("reference")

    for_many = "blockwise" if obstacle or not keeps_loops(in_training_call) else "compiled"
    # Whether the limit is on the pairs of all batches and heads, and the limit.
    counts_all, limit = False, _PAIRS_OF_ONE
    if for_many == "compiled":
        counts_all, limit = True, _PAIRS_OF_ALL
    elif on_accelerator(query) and not runs_op_by_op():
        counts_all, limit = True, by_rows.LARGE_ON_ACCELERATOR
    leading = [(query, axis) for axis in range(len(query.shape) - 2)] if counts_all else []
    axes = [(query, -2), (key, -2), *leading]
    return by_amount(axes, limit, lambda: compute("reference"), lambda: compute(for_many))


def _obstacle(pairs: Pairs, value_features: int) -> str | None:
    """Return why compiled loops cannot run here, to complete an error message; None if they can."""
    query = pairs.query
    shapes = (tuple(getattr(factor, "shape", ())) for factor in (pairs.alpha, pairs.beta))
    if any(shape[-1:] not in ((), (1,)) for shape in shapes):
        return f"needs `alpha` and `beta` with last dimension 1 (the same for all keys). {_OTHERS}"
    if pairs.bias is not None:
        return f"cannot add a `bias`; its loops compute E of `query` and `key` alone. {_OTHERS}"
    of_query = query.shape[-1] if isinstance(query.shape[-1], int) else 0
    obstacle = obstacle_to_loops(query, of_query + value_features)
    if obstacle:
        return f"{obstacle}. {_OTHERS}"
    if on_accelerator(query) and "triton" not in INSTALLED:
        return "needs Triton on a GPU: pip install triton."
    if not on_accelerator(query) and "numba" not in INSTALLED:
        return "needs Numba: pip install 'keras-quasiattn[compiled]'."
    return None
