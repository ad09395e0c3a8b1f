"""CoDA instead of softmax in a time-series model: convolutions, then attention over time.

    python examples/drop_in_time_series.py

A functional model contains another one; `swap_attention` finds the attention in it.
The task is made up: which of three waves is in a noisy series?
"""

import argparse

import keras
import numpy as np

from keras_quasiattn.layers import MultiHeadCoDA
from keras_quasiattn.models import swap_attention

STEPS, CLASSES = 64, 3


def series(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return series (count, STEPS, 1) with one of three frequencies, and the frequency's number."""
    draw = np.random.default_rng(seed)
    label = draw.integers(0, CLASSES, count)
    phase = draw.uniform(0, 2 * np.pi, (count, 1))
    wave = np.sin((label[:, None] + 2) * np.linspace(0, 2 * np.pi, STEPS) + phase)
    noisy = wave + draw.normal(0, 0.7, wave.shape)
    return noisy[..., None].astype("float32"), label


def classifier(attention: type[keras.Layer]) -> keras.Model:
    """Two convolutions that each halve the time, a nested model with attention over it, a mean."""
    inner = keras.Input((None, 32))
    attended = attention(num_heads=2, key_dim=16, name="attention")(inner, inner)
    over_time = keras.Model(inner, keras.layers.Add()([inner, attended]), name="over_time")
    x = inputs = keras.Input((STEPS, 1))
    for _ in range(2):
        x = keras.layers.Conv1D(32, 5, strides=2, padding="same", activation="relu")(x)
    x = keras.layers.GlobalAveragePooling1D()(keras.layers.LayerNormalization()(over_time(x)))
    return keras.Model(inputs, keras.layers.Dense(CLASSES)(x))


def main() -> None:
    """Train three models on the same series."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--examples", type=int, default=1500)
    parser.add_argument("--epochs", type=int, default=5)
    arguments = parser.parse_args()
    keras.utils.set_random_seed(0)
    softmax = classifier(keras.layers.MultiHeadAttention)
    models = {
        "softmax": softmax,
        "CoDA, written by hand": classifier(MultiHeadCoDA),
        "CoDA, by swap_attention": swap_attention(softmax),
    }
    for name, model in models.items():
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.Adam(2e-3), loss, metrics=["accuracy"])
        model.fit(
            *series(arguments.examples, seed=0), epochs=arguments.epochs, batch_size=64, verbose=0
        )
        _, accuracy = model.evaluate(*series(500, seed=1), verbose=0)
        kind = type(model.get_layer("over_time").get_layer("attention")).__name__
        print(f"{name} ({kind}): {accuracy:.3f} of 500 new series right")


if __name__ == "__main__":
    main()
