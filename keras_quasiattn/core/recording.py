"""Collect the matrices that attention ops compute, for inspection."""

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, NamedTuple

from keras_quasiattn.core.masks import without_padded_rows
from keras_quasiattn.core.tensors import holding

Tensor = Any


class Recorded(NamedTuple):
    """One matrix that an op computed.

    `values` are (..., T, S), with T = 1 where one row serves all queries, or (..., T) where a
    sequence is pooled; those at pairs that are not `visible` are meaningless. `label` names the
    matrix as in the paper, such as "tanh(E)", and `sequences` names the sequences of the rows and
    the columns, if `attention.probe.with_sequences` has added them.
    """

    values: Tensor
    visible: Tensor | None
    label: str
    sequences: tuple[str | None, str | None] = (None, None)


Recording = dict[str, Recorded]
active: ContextVar[Recording | None] = ContextVar("attention_recording", default=None)
# (weights (..., T, S), visible pairs or None) → weights to use instead
Edit = Callable[[Tensor, Tensor | None], Tensor]
_edit: ContextVar[Edit | None] = ContextVar("attention_edit", default=None)


@contextlib.contextmanager
def recording() -> Iterator[Recording]:
    """Collect the matrices that ops compute in the `with` block, by name, such as "weights".

    Ops that otherwise compute a matrix tile by tile compute it whole; outputs do not change. A
    nested recording collects into its own dictionary only. In a graph, the recorded tensors belong
    to that graph.

    >>> from keras_quasiattn import ops
    >>> x = np.ones((1, 2, 4), "float32")
    >>> with recording() as found:
    ...     output = ops.coda_attention(x, x, x)
    >>> {name: (one.label, tuple(one.values.shape)) for name, one in found.items()}
    {'similarity': ('tanh(E)', (1, 2, 2)), 'gate': ('2·sigmoid(N)', (1, 2, 2)),
    'weights': ('M', (1, 2, 2))}
    """
    found: Recording = {}
    with holding(active, found):
        yield found


@contextlib.contextmanager
def recording_of(sequence: str) -> Iterator[None]:
    """Record "weights" as "weights_first" in the `with` block, for the sequence "first"."""
    if not is_recording():
        yield
        return
    with recording() as found:
        yield
    for name, one in found.items():
        record(f"{name}_{sequence}", one.values, one.visible, f"{one.label} of the {sequence}")


@contextlib.contextmanager
def editing(edit: Edit) -> Iterator[None]:
    """Edit the attention weights of ops in the `with` block, to see what the weights do.

    >>> from keras_quasiattn import ops
    >>> x = np.ones((1, 2, 4), "float32")
    >>> with editing(lambda weights, visible: 0 * weights):
    ...     float(np.abs(ops.coda_attention(x, x, x)).max())
    0.0
    """
    with holding(_edit, edit), recording():
        yield


@contextlib.contextmanager
def unedited() -> Iterator[None]:
    """Keep the attention weights of ops in the `with` block, although an `editing` is active."""
    with holding(_edit, None):
        yield


def edited(weights: Tensor, visible: Tensor | None) -> Tensor:
    """Return the weights as changed by the active `editing` block, if any."""
    edit = _edit.get()
    return weights if edit is None else edit(weights, without_padded_rows(visible, weights))


def is_recording() -> bool:
    """Return whether a recording is active, so that ops must compute whole matrices."""
    return active.get() is not None


def record(name: str, values: Tensor, visible: Tensor | None, label: str) -> None:
    """Add a matrix to the active recording, if any, replacing one of the same name."""
    found = active.get()
    if found is not None:
        found[name] = Recorded(values, without_padded_rows(visible, values), label)
