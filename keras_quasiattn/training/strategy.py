"""Where a run computes: on one device or on several at once."""

import json
import os

import tensorflow as tf

from keras_quasiattn.errors import UserError
from keras_quasiattn.tasks import TrainingSettings

STRATEGIES = ("one", "mirrored", "multi-worker")


def make_strategy(name: str, settings: TrainingSettings) -> tf.distribute.Strategy:
    """The strategy in whose scope a model and its optimizer are made.

    Args:
        name: "one" computes on the first GPU, or on the CPU where there is none. "mirrored" shares every
            batch evenly among all visible GPUs; without a GPU, among the logical CPU devices that the process
            has configured (`tf.config.set_logical_device_configuration`). "multi-worker" does so among the
            processes that TF_CONFIG names, and waits until all of them are there; it has to be made before
            TensorFlow computes anything.
        settings: what the run asks for.

    Raises:
        UserError: an unknown strategy, no devices to mirror over, no or an unreadable TF_CONFIG, or settings that
            the strategy cannot keep.
    """
    if name not in STRATEGIES:
        raise UserError.unknown("strategy", name, STRATEGIES)
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
    if name != "one" and settings.jit_compile:
        # XLA refuses to read another device's variables from inside a compiled step.
        raise UserError(f"training.jit_compile is True: strategy {name!r} needs it to be False")
    if replicas > 1 and settings.clip_norm is not None:
        # Keras clips every replica's share of the gradient before it sums the shares.
        raise UserError(
            f"training.clip_norm is {settings.clip_norm}: strategy {name!r} needs it to be None"
        )
    return strategy


def _mirrored() -> tf.distribute.Strategy:
    if tf.config.list_logical_devices("GPU"):
        return tf.distribute.MirroredStrategy()
    devices = [device.name for device in tf.config.list_logical_devices("CPU")]
    if len(devices) < 2:
        raise UserError(
            "strategy 'mirrored' found no GPU and one CPU device: use the strategy 'one'"
        )
    # The default reduction on CPU uses collectives, which abort when a process makes a second strategy.
    return tf.distribute.MirroredStrategy(
        devices, cross_device_ops=tf.distribute.ReductionToOneDevice()
    )


def _multi_worker() -> tf.distribute.Strategy:
    """Of this process and those that TF_CONFIG names beside it."""
    given = os.environ.get("TF_CONFIG", "")
    try:
        config = json.loads(given)
        addresses = config["cluster"][config["task"]["type"]]
        known = set(config["cluster"]) <= {"chief", "worker"} and addresses[config["task"]["index"]]
    except (ValueError, LookupError, TypeError):
        known = False
    if not known:
        raise UserError(
            f"TF_CONFIG is {given!r}: strategy 'multi-worker' needs the workers' addresses and which one this is, "
            'such as {"cluster": {"worker": ["host0:2222", "host1:2222"]}, "task": {"type": "worker", "index": 0}}'
        )
    return tf.distribute.MultiWorkerMirroredStrategy()
