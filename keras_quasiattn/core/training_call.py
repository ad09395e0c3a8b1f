"""Whether what is computed now belongs to a training call of a layer."""

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

_training: ContextVar[bool] = ContextVar("training_call", default=False)


@contextlib.contextmanager
def training_call(training: bool | None) -> Iterator[None]:
    """Mark the calls in the `with` block as training calls or not; None changes nothing.

    Outside such blocks no call is a training call. Results never depend on it.
    """
    token = _training.set(_training.get() if training is None else bool(training))
    try:
        yield
    finally:
        _training.reset(token)


def in_training_call() -> bool:
    """Return whether the innermost `training_call` block marks training."""
    return _training.get()
