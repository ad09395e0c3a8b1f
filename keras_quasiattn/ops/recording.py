"""What attention computes on its way to an output, kept for whoever wants to look at it."""

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any, NamedTuple

from keras_quasiattn.ops.masking import combine_masks

Tensor = Any


class Recorded(NamedTuple):
    """One matrix that an op made.

    Args:
        values: (..., T, S), T 1 where it is one row for all, or (..., T) where a sequence is pooled; what stands at
            hidden pairs means nothing.
        visible: boolean, broadcasts with `values`; None for all.
        label: the matrix in the paper's letters, "tanh(E)" for instance.
    """

    values: Tensor
    visible: Tensor | None
    label: str


Recording = dict[str, Recorded]
_active: ContextVar[Recording | None] = ContextVar("attention_recording", default=None)


@contextlib.contextmanager
def recording() -> Iterator[Recording]:
    """Keeps what every op of the body computes, by name: "similarity", "gate" and "weights", or "gates".

    Ops that make a matrix tile by tile make it whole for a recording, in T·S memory a head; outputs do not change.
    A recording within a recording keeps its own. In a graph the tensors belong to the graph.

    >>> import numpy as np
    >>> from keras_quasiattn import ops
    >>> x = np.ones((1, 2, 4), "float32")
    >>> with recording() as found:
    ...     output = ops.coda_attention(x, x, x)
    >>> {name: (one.label, tuple(one.values.shape)) for name, one in found.items()}
    {'similarity': ('tanh(E)', (1, 2, 2)), 'gate': ('2·sigmoid(N)', (1, 2, 2)), 'weights': ('M', (1, 2, 2))}
    """
    found: Recording = {}
    token = _active.set(found)
    try:
        yield found
    finally:
        _active.reset(token)


def is_recording() -> bool:
    """Whether a recording is active, which needs whole matrices."""
    return _active.get() is not None


def record(name: str, values: Tensor, visible: Tensor | None, label: str) -> None:
    """Hands a matrix to the recording there is, if any; of two of one name the last stays."""
    found = _active.get()
    if found is not None:
        found[name] = Recorded(values, visible, label)


def mark_visible(visible: Tensor | None) -> None:
    """Says of all that was recorded so far which pairs are real; `visible` broadcasts to the matrices."""
    found = _active.get()
    if found is not None and visible is not None:
        for name, one in found.items():
            found[name] = one._replace(visible=combine_masks(one.visible, visible))
