"""Coordinate the processes that train one model together in one run folder."""

import contextlib
from collections.abc import Callable, Iterator
from typing import TypeVar

import tensorflow as tf

from keras_quasiattn.errors import UserError

_T = TypeVar("_T")
_DONE, _FAILED = 1, 2
# The errors that TensorFlow raises when another process no longer responds.
_LOST = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.InternalError,
)


class Workers:
    """The workers of a strategy. A process that trains alone is the chief.

    All workers call the same methods in the same order. All of them can reach the run folder; only
    the chief writes to it.
    """

    def __init__(self, strategy: tf.distribute.Strategy) -> None:
        self._strategy = strategy
        self.several = isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)
        self.is_chief = not self.several
        if self.several:
            resolver = strategy.cluster_resolver
            alone = "chief" not in resolver.cluster_spec().jobs
            first = "worker" if alone else "chief"
            self.is_chief = (resolver.task_type, resolver.task_id) == (first, 0)

    def broadcast_from_chief(self, number: int) -> int:
        """Wait until all workers have made this call, and return the chief's number."""
        if not self.several:
            return number

        @tf.function
        def add() -> tf.Tensor:
            context = tf.distribute.get_replica_context()
            chief = tf.equal(context.replica_id_in_sync_group, 0)  # replica 0 is the chief's
            return context.all_reduce(tf.distribute.ReduceOp.SUM, tf.where(chief, number, 0))

        return int(self._strategy.experimental_local_results(self._strategy.run(add))[0])

    def chief_first(self, step: Callable[[], _T]) -> _T:
        """Call `step` on the chief, then on the other workers, and return its result.

        If the chief fails, the others raise a `UserError`.
        """
        if not self.is_chief:
            if self.broadcast_from_chief(0) == _FAILED:
                raise UserError("the chief worker failed: see its log for the reason")
            return step()
        try:
            result = step()
        except BaseException:
            self.broadcast_from_chief(_FAILED)
            raise
        self.broadcast_from_chief(_DONE)
        return result

    @contextlib.contextmanager
    def lost_workers_as_user_error(self) -> Iterator[None]:
        """Turn the various errors that a lost worker causes on the others into a `UserError`."""
        try:
            yield
        except _LOST as error:
            if not self.several:
                raise
            raise UserError(
                "another worker has stopped or cannot be reached: start all workers again "
                "with the same arguments, and the run continues from its last checkpoint"
            ) from error
