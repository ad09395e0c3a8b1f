"""Where a run computes: on one device or on several at once."""

import tensorflow as tf

from keras_quasiattn.errors import UserError
from keras_quasiattn.tasks import TrainingSettings

STRATEGIES = ("one", "mirrored")


def make_strategy(name: str, settings: TrainingSettings) -> tf.distribute.Strategy:
    """The strategy in whose scope a model and its optimizer are made.

    Args:
        name: "one" computes on the first GPU, or on the CPU where there is none. "mirrored" shares every
            batch evenly among all visible GPUs; without a GPU, among the logical CPU devices that the process
            has configured (`tf.config.set_logical_device_configuration`).
        settings: what the run asks for.

    Raises:
        UserError: an unknown strategy, no devices to mirror over, or settings that the strategy cannot keep.
    """
    if name not in STRATEGIES:
        raise UserError.unknown("strategy", name, STRATEGIES)
    strategy = tf.distribute.get_strategy() if name == "one" else _mirrored()
    replicas = strategy.num_replicas_in_sync
    if settings.batch_size % replicas:
        raise UserError(
            f"training.batch_size is {settings.batch_size}: "
            f"strategy {name!r} needs a multiple of its {replicas} replicas"
        )
    if name == "mirrored" and settings.jit_compile:
        # XLA refuses to read another device's variables from inside a compiled step.
        raise UserError("training.jit_compile is True: strategy 'mirrored' needs it to be False")
    if replicas > 1 and settings.clip_norm is not None:
        # Keras clips every replica's share of the gradient before it sums the shares.
        raise UserError(f"training.clip_norm is {settings.clip_norm}: strategy {name!r} needs it to be None")
    return strategy


def _mirrored() -> tf.distribute.Strategy:
    if tf.config.list_logical_devices("GPU"):
        return tf.distribute.MirroredStrategy()
    devices = [device.name for device in tf.config.list_logical_devices("CPU")]
    if len(devices) < 2:
        raise UserError("strategy 'mirrored' found no GPU and one CPU device: use the strategy 'one'")
    # The default reduction on CPU uses collectives, which abort when a process makes a second strategy.
    return tf.distribute.MirroredStrategy(devices, cross_device_ops=tf.distribute.ReductionToOneDevice())
