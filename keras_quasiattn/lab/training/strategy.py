"""Where and how precisely to compute: distribution strategies and precision policies."""

import contextlib
import json
import os
from collections.abc import Iterator

import keras
import tensorflow as tf

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.tasks import TrainingSettings
from keras_quasiattn.lab.training.config import POLICIES, STRATEGIES


@contextlib.contextmanager
def dtype_policy(name: str) -> Iterator[None]:
    """Set Keras' global dtype policy, one of `POLICIES`, within the `with` block."""
    if name not in POLICIES:
        raise UserError.unknown("precision policy", name, POLICIES)
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
