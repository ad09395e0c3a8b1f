"""What Keras 3.15 lacks where several replicas train one model; each part has a test that fails once it can go.

TensorFlow backend only.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import keras
import tensorflow as tf


@keras.saving.register_keras_serializable("keras_quasiattn")
class ReplicaLossScaleOptimizer(keras.optimizers.LossScaleOptimizer):
    """Keras' `LossScaleOptimizer`, with an update left out when any replica's gradient overflows.

    Keras asks whether the gradients are finite before it sums them over the replicas and then believes the
    first replica alone; an overflow on another one reaches the weights as NaN. Here every replica counts. On
    one device it is Keras' own. The arguments are those of `keras.optimizers.LossScaleOptimizer`.
    """

    def check_finite(self, grads: list[Any]) -> Any:
        """Whether all gradients on all replicas are finite."""
        finite = super().check_finite(grads)
        context = tf.distribute.get_replica_context()
        if context is None or context.num_replicas_in_sync == 1:
            return finite
        overflows = context.all_reduce(
            tf.distribute.ReduceOp.SUM, tf.cast(tf.logical_not(finite), tf.float32)
        )
        return tf.equal(overflows, 0.0)


class _WorkerSteps(keras.Model):
    """The parts of `fit` that fail in a cluster of workers (keras-team/keras#20585)."""

    def _maybe_symbolic_build(
        self, iterator: Iterable[Any] | None = None, data_batch: Any = None
    ) -> None:
        # Keras' own reduces the first batch over the replicas, which a batch of one worker cannot be.
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
    """Figures (1,) instead of scalars, which Keras cannot join over the workers."""
    return {name: tf.reshape(value, (1,)) for name, value in logs.items()}


def fit_among_workers(model: keras.Model) -> None:
    """Let `fit` and `evaluate` of this model run under `MultiWorkerMirroredStrategy`.

    The model must not be saved afterwards, since its class is one that no other process knows.
    """
    cls = type(model)
    model.__class__ = type(cls.__name__, (_WorkerSteps, cls), {})


def give_each_replica_its_noise(model: keras.Model, strategy: tf.distribute.Strategy) -> None:
    """Let dropout and the gates' noise differ from replica to replica; they are mirrored otherwise.

    The first replica's noise stays as it is. Only its state is in a checkpoint, and the others' are at a fixed
    distance from it: call this once after the model was made or restored.
    """
    states = [
        variable
        for variable in model.non_trainable_variables
        if variable.name == "seed_generator_state"
    ]

    @tf.function
    def shift() -> None:
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        for state in states:
            state.assign_add(tf.cast(tf.stack([replica, 0]), state.dtype))

    strategy.run(shift)
