"""Two logical CPU devices in a separate process, which prints the results on the last line."""

import keras
import numpy as np
import tensorflow as tf

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)

from keras_quasiattn.metrics import MeanAveragePrecision, MeanReciprocalRank  # noqa: E402

COUNT = 50
random = np.random.default_rng(0)
scores = random.integers(0, 9, (COUNT, 1)).astype("float32")
order = random.permutation(COUNT)
labels = (random.random(COUNT) < 0.3).astype(int)
rows = np.stack([labels, random.integers(0, 7, COUNT), np.arange(COUNT)], axis=1)


def squared_error(y_true: tf.Tensor, y_pred: tf.Tensor) -> tf.Tensor:
    return tf.square(y_pred[:, 0] - tf.cast(y_true[:, 0], "float32"))


def figures(strategy: tf.distribute.Strategy, rows: np.ndarray) -> list[float]:
    with strategy.scope():
        dense = keras.layers.Dense(1, kernel_initializer="ones")
        model = keras.Sequential([keras.Input((1,)), dense])
        metrics = [MeanAveragePrecision(capacity=COUNT), MeanReciprocalRank(capacity=COUNT)]
        model.compile(keras.optimizers.SGD(0.0), squared_error, metrics=metrics)
    data = tf.data.Dataset.from_tensor_slices((scores[order], rows[order])).batch(8)
    values = []
    for _ in range(2):  # the second time from an empty state
        values += model.evaluate(data, verbose=0)[1:]
    history = model.fit(data, validation_data=data, verbose=0).history
    return [
        *values,
        history["val_mean_average_precision"][0],
        history["val_mean_reciprocal_rank"][0],
    ]


mirrored = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
assert mirrored.num_replicas_in_sync == 2
one, two = figures(tf.distribute.get_strategy(), rows), figures(mirrored, rows)
np.testing.assert_allclose(one, two, atol=1e-6)
assert all(0 < figure < 1 for figure in one)
rows[:, 2] = 5
assert np.isnan(figures(mirrored, rows)).all()
print("same; and none where two replicas met one example")
