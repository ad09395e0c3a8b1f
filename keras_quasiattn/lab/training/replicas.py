"""Workarounds for faults of Keras 3.15 when several replicas train one model.

Each has a test that fails once Keras no longer needs it.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import keras
import tensorflow as tf


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
