"""Train on two logical CPU devices in a separate process; print the results as JSON."""

import json
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)

import toy_task  # noqa: E402

from keras_quasiattn.errors import UserError  # noqa: E402
from keras_quasiattn.lab import tasks  # noqa: E402
from keras_quasiattn.lab.training import RunFolder, train  # noqa: E402
from keras_quasiattn.lab.training.checkpoints import CheckpointCallback  # noqa: E402
from keras_quasiattn.lab.training.replicas import (  # noqa: E402
    ReplicaAdam,
    ReplicaLossScaleOptimizer,
    offset_replica_seeds,
)
from keras_quasiattn.lab.training.strategy import make_strategy  # noqa: E402

FOLDER = Path(sys.argv[1])
PLAIN = {
    "model__dropout": 0.0,
    "model__batch_normalization": False,
    "training__steps": 16,
    "training__average_checkpoints": 2,
    "training__clip_norm": 0.25,
}


def run(
    name: str, strategy: str, policy: str = "float32", optimizer: Any = None, **overrides: Any
) -> RunFolder:
    task = toy_task.make(FOLDER, **{**PLAIN, **overrides})
    options = {"strategy": strategy, "policy": policy, "optimizer": optimizer}
    return train(task, FOLDER / name, progress=False, **options)


def largest_difference(one: RunFolder, other: RunFolder) -> float:
    """Return it over all weights but the keys' bias.

    Softmax cancels that bias, and Adam scales its rounding errors up.
    """
    pairs = zip(one.load_model().weights, other.load_model().weights, strict=True)
    compared = [(left, right) for left, right in pairs if not left.path.endswith("key/bias")]
    return float(max(np.abs(left.numpy() - right.numpy()).max() for left, right in compared))


def stopped_and_resumed(name: str) -> RunFolder:
    def stop(self, batch, logs=None):
        if self.model.optimizer.iterations.numpy() == 10:
            raise KeyboardInterrupt

    CheckpointCallback.on_train_batch_end = stop
    try:
        run(name, "mirrored")
    except KeyboardInterrupt:
        del CheckpointCallback.on_train_batch_end
    return run(name, "mirrored")


def overflow_on_the_second_replica(
    optimizer_class: type[keras.optimizers.LossScaleOptimizer],
) -> list[float]:
    """Return weight and loss scale after an update with an infinite gradient on one replica."""
    strategy = make_strategy("mirrored", toy_task.make(FOLDER).options.training)
    with strategy.scope():
        weight = keras.Variable(1.0)
        optimizer = optimizer_class(keras.optimizers.SGD(1.0), initial_scale=8.0)
        optimizer.build([weight])

    def update():
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        optimizer.apply([tf.where(tf.equal(replica, 1), np.inf, 8.0)], [weight])

    strategy.run(tf.function(update))
    return [float(weight.numpy()), float(optimizer.dynamic_scale.numpy())]


def noise_of_the_replicas() -> list[list[list[float]]]:
    """Return dropout applied to ones on each replica, with Keras' seeds and with a run's."""
    strategy = make_strategy("mirrored", toy_task.make(FOLDER).options.training)
    ones = np.ones((1, 32), "float32")
    with strategy.scope():
        model = keras.Sequential([keras.Input((32,)), keras.layers.Dropout(0.5, seed=1)])

    def draw():
        left = strategy.run(tf.function(lambda: model(ones, training=True)))
        return [values.numpy()[0].tolist() for values in strategy.experimental_local_results(left)]

    before = draw()
    offset_replica_seeds(model, strategy)
    return [before, draw(), draw()]


def clipped_updates(optimizer_class: type[keras.optimizers.Optimizer]) -> float:
    """Return a weight's update by gradients of 3 and −5 on two replicas, clipped to 1."""
    strategy = make_strategy("mirrored", toy_task.make(FOLDER).options.training)
    with strategy.scope():
        weight = keras.Variable(0.0)
        # With β = 0 and a large ε, the first update is nearly the gradient itself.
        optimizer = optimizer_class(1e3, beta_1=0.0, beta_2=0.0, epsilon=1e3, global_clipnorm=1.0)
        optimizer.build([weight])

    def update():
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        optimizer.apply([tf.where(tf.equal(replica, 1), -5.0, 3.0)], [weight])

    strategy.run(tf.function(update))
    return float(weight.numpy())


def refusals() -> list[str]:
    messages = []
    clipping = keras.optimizers.SGD(0.1, global_clipnorm=0.25)
    summing = keras.optimizers.SGD(0.1, gradient_accumulation_steps=2)
    refused = (
        ({"training__batch_size": 7}, None),
        ({"training__accumulate": 2}, None),
        ({}, clipping),
        ({"training__clip_norm": None}, summing),
    )
    for changed, optimizer in refused:
        try:
            run("refused", "mirrored", optimizer=optimizer, **changed)
        except UserError as error:
            messages.append(str(error))
    return messages


def learning(folder: RunFolder) -> dict[str, Any]:
    """Compare the run with the same run on one device.

    Also record what replicas reject, and the noise and overflow of single replicas.
    """
    one = run("one", "one")
    return {
        "replicas": folder.config["options"]["replicas"],
        "difference": largest_difference(one, folder),
        "losses": [[row["loss"] for row in run.history()] for run in (one, folder)],
        "validation": [[row["val_loss"] for row in run.history()] for run in (one, folder)],
        "ours": overflow_on_the_second_replica(ReplicaLossScaleOptimizer),
        "noise": noise_of_the_replicas(),
        "clipped": [clipped_updates(cls) for cls in (keras.optimizers.Adam, ReplicaAdam)],
        "refusals": refusals(),
        "refused_folder": (FOLDER / "refused").exists(),
    }


def going_on(folder: RunFolder) -> dict[str, Any]:
    """Run the same again, stopped and resumed, and once in half precision."""
    half = run(
        "float16", "mirrored", policy="mixed_float16", training__steps=8, training__jit_compile=True
    )
    return {
        "resumed": largest_difference(folder, stopped_and_resumed("resumed")),
        "float16": all(
            bool(np.isfinite(weight).all()) for weight in half.load_model().get_weights()
        ),
    }


tasks._TASKS["toy"] = "toy_task:ToyTask"
print(
    json.dumps(
        {"learning": learning, "going_on": going_on}[sys.argv[2]](run("mirrored", "mirrored"))
    )
)
