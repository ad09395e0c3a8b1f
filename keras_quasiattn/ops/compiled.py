"""Where compiled CPU loops may be used, and which implementation "auto" means."""

import contextlib
import importlib.util
from collections.abc import Iterator
from typing import Any

import keras

from keras_quasiattn.ops.executor import runs_op_by_op

Tensor = Any

# One tile of keys for as many queries. With a length of 1 the difference is no larger than its terms.
_FEW_PAIRS = 32 * 32
_INSTALLED = importlib.util.find_spec("numba") is not None
_allowed_in_graphs = False


@contextlib.contextmanager
def compiled_in_graphs() -> Iterator[None]:
    """Lets `implementation="auto"` use compiled CPU loops in graphs that are traced inside this block.

    A graph that calls compiled loops cannot be compiled by XLA or exported, and nothing tells a function being
    traced whether it will be; so in graphs "auto" takes these loops only where the caller vouches for it:

    ```python
    with keras_quasiattn.ops.compiled_in_graphs():
        model.fit(x, y)
    model.export("served")  # traced outside the block: no compiled loops
    ```

    The switch holds for all threads.
    """
    global _allowed_in_graphs
    before, _allowed_in_graphs = _allowed_in_graphs, True
    try:
        yield
    finally:
        _allowed_in_graphs = before


def choose_implementation(
    implementation: str, query: Tensor, key: Tensor, alpha: float | Tensor, beta: float | Tensor
) -> str:
    """What "auto" means here; other names are returned as they are.

    Args:
        implementation: "auto", or the name of an implementation.
        query: (..., T, D).
        key: (..., S, D).
        alpha: factor of the similarity.
        beta: factor of the distance.

    Raises:
        ValueError: "compiled" was asked for where there is no such thing.
    """
    if implementation == "compiled":
        missing = _missing()
        if missing:
            raise ValueError(f"`implementation='compiled'` needs {missing}.")
    if implementation != "auto":
        return implementation
    lengths = query.shape[-2], key.shape[-2]
    if 1 in lengths or (None not in lengths and lengths[0] * lengths[1] <= _FEW_PAIRS):
        return "reference"
    shapes = (tuple(getattr(factor, "shape", ())) for factor in (alpha, beta))
    vary = any(shape and shape[-1] != 1 for shape in shapes)
    return "blockwise" if vary or _missing() or not _vouched() else "compiled"


def _missing() -> str | None:
    if keras.backend.backend() != "tensorflow":
        return f"the TensorFlow backend. Received: {keras.backend.backend()}"
    if not _INSTALLED:
        return "Numba: pip install 'keras-quasiattn[compiled]'"
    import tensorflow as tf

    return "a machine without a GPU" if tf.config.list_physical_devices("GPU") else None


def _vouched() -> bool:
    import tensorflow as tf

    return tf.executing_eagerly() or (_allowed_in_graphs and runs_op_by_op())
