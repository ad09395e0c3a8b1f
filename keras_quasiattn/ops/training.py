"""Whether ops run within a training step; layers say so, and whoever needs it asks."""

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

_active: ContextVar[bool] = ContextVar("training_step", default=False)


@contextlib.contextmanager
def training_step(training: bool | None) -> Iterator[None]:
    """Says for the `with` block whether it is a training step; None leaves that as it is.

    Nothing is a training step unless a block says so. Results never depend on it.
    """
    token = _active.set(_active.get() if training is None else bool(training))
    try:
        yield
    finally:
        _active.reset(token)


def in_training_step() -> bool:
    """Whether the innermost block that says so is a training step."""
    return _active.get()
