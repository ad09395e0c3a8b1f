"""Where and how precisely to compute: strategies, their workers, and precision policies."""

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from typing import TypeVar

import keras
import tensorflow as tf

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.tasks import TrainingSettings
from keras_quasiattn.lab.training.config import POLICIES, STRATEGIES

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


@contextlib.contextmanager
def dtype_policy(name: str) -> Iterator[None]:
    """Set Keras' global dtype policy, one of `POLICIES`, within the `with` block."""
    UserError.check("precision policy", name, POLICIES)
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(name)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


def make_strategy(name: str, settings: TrainingSettings) -> tf.distribute.Strategy:
    """Create the strategy under which a model and its optimizer are created.

    "one" computes on the first GPU, or on the CPU if there is none. "mirrored" splits every batch
    evenly over all visible GPUs; without a GPU, over the logical CPU devices that the process has
    configured (`tf.config.set_logical_device_configuration`). "multi-worker" splits it over the
    processes that TF_CONFIG lists, and waits until all of them have started; it must be created
    before TensorFlow computes anything. Only "one" accumulates gradients.
    """
    UserError.check("strategy", name, STRATEGIES)
    if name != "one" and settings.accumulate > 1:
        raise UserError(
            f"training.accumulate is {settings.accumulate}: Keras cannot accumulate gradients "
            f"with strategy {name!r}; set it to 1, or use strategy 'one'"
        )
    strategy = {
        "one": tf.distribute.get_strategy,
        "mirrored": _mirrored,
        "multi-worker": _multi_worker,
    }[name]()
    replicas = strategy.num_replicas_in_sync
    if settings.batch_size % replicas:
        raise UserError(
            f"training.batch_size is {settings.batch_size}: "
            f"strategy {name!r} needs a multiple of its {replicas} replicas"
        )
    return strategy


def _mirrored() -> tf.distribute.Strategy:
    if tf.config.list_logical_devices("GPU"):
        return tf.distribute.MirroredStrategy()
    devices = [device.name for device in tf.config.list_logical_devices("CPU")]
    if len(devices) < 2:
        raise UserError(
            "strategy 'mirrored' found no GPU and only one CPU device: use strategy 'one'"
        )
    # The default reduction on CPU uses collectives, which abort if a process makes a second
    # strategy.
    return tf.distribute.MirroredStrategy(
        devices, cross_device_ops=tf.distribute.ReductionToOneDevice()
    )


def _multi_worker() -> tf.distribute.Strategy:
    """Return the strategy over all processes that TF_CONFIG lists, including this one."""
    given = os.environ.get("TF_CONFIG", "")
    try:
        config = json.loads(given)
        addresses = config["cluster"][config["task"]["type"]]
        known = set(config["cluster"]) <= {"chief", "worker"} and addresses[config["task"]["index"]]
    except (ValueError, LookupError, TypeError):
        known = False
    if not known:
        raise UserError(
            f"TF_CONFIG is {given!r}: strategy 'multi-worker' needs "
            "the workers' addresses and which one this is, "
            'such as {"cluster": {"worker": ["host0:2222", "host1:2222"]}, '
            '"task": {"type": "worker", "index": 0}}'
        )
    return tf.distribute.MultiWorkerMirroredStrategy()


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
