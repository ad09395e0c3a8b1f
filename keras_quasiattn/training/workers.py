"""The processes that train one model together, and how they keep in step around one run folder."""

import contextlib
from collections.abc import Callable, Iterator
from typing import TypeVar

import tensorflow as tf

from keras_quasiattn.errors import UserError

_T = TypeVar("_T")
_DONE, _FAILED = 1, 2
# What TensorFlow raises where another process no longer answers.
_LOST = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.InternalError,
)


class Workers:
    """The workers of a strategy; a process that trains alone is a chief without others.

    All workers call the same methods in the same order. The run folder is one that all of them reach; the chief
    alone writes there.

    Args:
        strategy: under which they train.

    Attributes:
        several: whether there are other processes.
        is_chief: whether this one is the chief.
    """

    def __init__(self, strategy: tf.distribute.Strategy) -> None:
        self._strategy = strategy
        self.several = isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)
        self.is_chief = not self.several or _is_chief(strategy.cluster_resolver)

    def from_chief(self, number: int) -> int:
        """The chief's number, once all workers have come to this point."""
        if not self.several:
            return number

        @tf.function
        def add() -> tf.Tensor:
            context = tf.distribute.get_replica_context()
            chief = tf.equal(context.replica_id_in_sync_group, 0)  # its first replica
            return context.all_reduce(tf.distribute.ReduceOp.SUM, tf.where(chief, number, 0))

        return int(self._strategy.experimental_local_results(self._strategy.run(add))[0])

    def chief_first(self, step: Callable[[], _T]) -> _T:
        """What a step returns that the others may take only after the chief has.

        Raises:
            UserError: the chief has failed; in the chief whatever the step raises.
        """
        if not self.is_chief:
            if self.from_chief(0) == _FAILED:
                raise UserError("the chief worker has stopped: its own message says why")
            return step()
        try:
            result = step()
        except BaseException:
            self.from_chief(_FAILED)
            raise
        self.from_chief(_DONE)
        return result

    @contextlib.contextmanager
    def naming_lost_workers(self) -> Iterator[None]:
        """Make one error of the many that a lost worker causes in the others.

        Raises:
            UserError: another worker no longer answers.
        """
        try:
            yield
        except _LOST as error:
            if not self.several:
                raise
            raise UserError(
                "another worker has stopped or cannot be reached: start all workers again with the same "
                "arguments, and the run goes on from its last checkpoint"
            ) from error


def _is_chief(resolver: tf.distribute.cluster_resolver.ClusterResolver) -> bool:
    if resolver.task_type == "worker":
        return resolver.task_id == 0 and "chief" not in resolver.cluster_spec().jobs
    return resolver.task_type == "chief"
