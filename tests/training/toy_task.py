"""A task that trains in seconds: name the largest of six digits, from attention with dropout."""

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.tasks import Preset, ServingSignature, Task, TrainingSettings
from keras_quasiattn.lab.tasks.measured import Measured

LENGTH = 6


class ToyTask(Task):
    name = "toy"
    summary = "six digits to the largest of them"
    example = "314159"
    models = ("softmax", "dense")
    presets: Mapping[str, Preset] = {
        "tiny": Preset(
            summary="for tests",
            data={"validation_batches": 2},
            model={"width": 8, "dropout": 0.2, "batch_normalization": True},
            training=TrainingSettings(
                steps=24,
                batch_size=8,
                learning_rate=1e-2,
                warmup_steps=4,
                checkpoint_every=4,
                average_checkpoints=3,
            ),
        )
    }

    def prepare(self) -> None:
        self.data_dir.mkdir(parents=True, exist_ok=True)

    def build_model(self) -> keras.Model:
        options = self.options.model
        digits = keras.Input((LENGTH,), dtype="int32", name="digits")
        hidden = keras.layers.Embedding(10, options["width"])(digits)
        if self.model == "softmax":
            attention = keras.layers.MultiHeadAttention(2, 4, dropout=options["dropout"])
            hidden = hidden + attention(hidden, hidden)
        hidden = keras.layers.Dropout(options["dropout"])(hidden)
        if options["batch_normalization"]:
            hidden = keras.layers.BatchNormalization()(hidden)
        hidden = keras.layers.Flatten()(hidden)
        return keras.Model(digits, keras.layers.Dense(10, dtype="float32")(hidden))

    def loss(self) -> keras.losses.Loss:
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def metrics(self) -> list[keras.metrics.Metric]:
        return [keras.metrics.SparseCategoricalAccuracy(name="accuracy")]

    def _batch(self, step: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        seed = tf.stack([tf.constant(self.seed, tf.int64), step])
        shape = (self.options.training.batch_size, LENGTH)
        digits = tf.random.stateless_uniform(shape, seed, maxval=10, dtype=tf.int32)
        return digits, tf.reduce_max(digits, axis=1)

    def training_data(self, first_step: int) -> tf.data.Dataset:
        return tf.data.Dataset.counter(first_step).map(self._batch)

    def validation_data(self) -> tf.data.Dataset:
        return tf.data.Dataset.range(-self.options.data["validation_batches"], 0).map(self._batch)

    def measure(
        self, model: keras.Model, split: str = "test", limit: int | None = None
    ) -> Measured:
        digits, target = self._batch(tf.constant(-100, tf.int64))
        right = keras.ops.argmax(model(digits), axis=-1) == target
        items = tf.cast(right[:limit], tf.float64).numpy()
        return Measured({"accuracy": float(items.mean())}, items)

    def answer(self, model: keras.Model, inputs: Sequence[str]) -> list[dict[str, Any]]:
        for text in inputs:
            self.check_input(text)
        logits = model(tf.constant([[int(digit) for digit in text] for text in inputs]))
        return [{"largest": int(number)} for number in keras.ops.argmax(logits, axis=-1)]

    def check_input(self, text: str | bytes) -> None:
        if len(text) != LENGTH or not text.isdigit():
            raise UserError(f"the input {text!r} must be {LENGTH} digits")

    def serving_signature(self, model: keras.Model) -> ServingSignature:
        raise NotImplementedError


def make(folder: Any, model: str = "softmax", seed: int = 7, **overrides: Any) -> ToyTask:
    """Return the task with the tiny preset; `model__width=4` overrides `model.width`."""
    dotted = {name.replace("__", "."): value for name, value in overrides.items()}
    return ToyTask(preset="tiny", model=model, seed=seed, data_dir=folder, overrides=dotted)
