"""Where and how precisely to compute: strategies, workers, replicas, and precision policies."""

import contextlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

import keras
import tensorflow as tf

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.tasks import TrainingSettings
from keras_quasiattn.lab.training.config import POLICIES, STRATEGIES

# Workarounds for faults of Keras 3.15 when several replicas train one model. Each has a test that
# fails once Keras no longer needs it.

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


@keras.saving.register_keras_serializable("keras_quasiattn")
class ReplicaLossScaleOptimizer(keras.optimizers.LossScaleOptimizer):
    """Keras' `LossScaleOptimizer`, but it skips an update if the gradient of any replica overflows.

    Keras checks each replica's gradients before it sums them, and then uses the first one's result
    alone; an overflow on another replica reaches the weights as NaN.
    """

    def check_finite(self, grads: list[Any]) -> Any:
        """Return whether all gradients on all replicas are finite."""
        finite = super().check_finite(grads)
        context = tf.distribute.get_replica_context()
        if context is None or context.num_replicas_in_sync == 1:
            return finite
        overflows = context.all_reduce(
            tf.distribute.ReduceOp.SUM, tf.cast(tf.logical_not(finite), tf.float32)
        )
        return tf.equal(overflows, 0.0)


@keras.saving.register_keras_serializable("keras_quasiattn")
class ReplicaAdam(keras.optimizers.Adam):
    """Keras' `Adam`, but it clips the gradient of the whole batch instead of each replica's part.

    Keras clips before it sums the gradients over the replicas. On one device this class behaves
    like Keras' own. The arguments are those of `keras.optimizers.Adam`.
    """

    def _clip_gradients(self, grads: list[Any]) -> list[Any]:
        context = tf.distribute.get_replica_context()
        clips = self.clipnorm or self.global_clipnorm or self.clipvalue
        if not clips or context is None or context.num_replicas_in_sync == 1:
            return list(super()._clip_gradients(grads))
        clipped = super()._clip_gradients(context.all_reduce(tf.distribute.ReduceOp.SUM, grads))
        # Keras will sum this over the replicas, which now all have the same gradient.
        return [gradient / context.num_replicas_in_sync for gradient in clipped]


class _WorkerSteps(keras.Model):
    """Replace the parts of `fit` that fail in a cluster of workers (keras-team/keras#20585)."""

    def _maybe_symbolic_build(
        self, iterator: Iterable[Any] | None = None, data_batch: Any = None
    ) -> None:
        # Keras' own method reduces the first batch over all replicas, which fails because a worker
        # has only its own part of the batch.
        strategy = self.distribute_strategy
        if iterator is not None:
            _, _, batches = next(iter(iterator))
            data_batch = keras.tree.map_structure(
                lambda values: strategy.experimental_local_results(values)[0], next(batches)
            )
        with strategy.scope():
            self._symbolic_build(data_batch=data_batch)

    def train_step(self, data: Any) -> dict[str, tf.Tensor]:
        return _as_vectors(super().train_step(data))

    def test_step(self, data: Any) -> dict[str, tf.Tensor]:
        return _as_vectors(super().test_step(data))


def _as_vectors(logs: Mapping[str, Any]) -> dict[str, tf.Tensor]:
    """Reshape scalar metrics to (1,), because Keras cannot concatenate scalars over the workers."""
    return {name: tf.reshape(value, (1,)) for name, value in logs.items()}


def fit_among_workers(model: keras.Model) -> None:
    """Make `fit` of a model work among workers; save it with `without_training` only."""
    cls = type(model)
    model.__class__ = type(cls.__name__, (_WorkerSteps, cls), {})


def without_training(model: keras.Model) -> keras.Model:
    """Remove the optimizer, loss and metrics, which would be saved with the model; return it."""
    if isinstance(model, _WorkerSteps):
        model.__class__ = type(model).__mro__[2]
    model.compiled = False
    model.optimizer = None
    return model


def offset_replica_seeds(model: keras.Model, strategy: tf.distribute.Strategy) -> None:
    """Make dropout and gate noise differ between replicas, which otherwise all draw the same.

    A checkpoint holds the first replica's seed states, which stay: call this once after the model
    is created or restored.
    """
    variables = model.non_trainable_variables
    states = [one for one in variables if one.name == "seed_generator_state"]

    @tf.function
    def shift() -> None:
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        for state in states:
            # A seed state is (2,); only its first number is shifted.
            state.assign_add(tf.cast(tf.stack([replica, 0]), state.dtype))

    strategy.run(shift)


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
    before TensorFlow computes anything.
    """
    UserError.check("strategy", name, STRATEGIES)
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
