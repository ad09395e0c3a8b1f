"""Loss scaling for float16 that all replicas agree on."""

from typing import Any

import keras
import tensorflow as tf


@keras.saving.register_keras_serializable("keras_quasiattn")
class ReplicaLossScaleOptimizer(keras.optimizers.LossScaleOptimizer):
    """Keras' `LossScaleOptimizer`, with an update left out when any replica's gradient overflows.

    Keras asks whether the gradients are finite before it sums them over the replicas and then believes the
    first replica alone; an overflow on another one reaches the weights as NaN. Here every replica counts. On
    one device it is Keras' own. The arguments are those of `keras.optimizers.LossScaleOptimizer`; TensorFlow
    backend only.
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
