"""CoDA instead of softmax in a text encoder like those of KerasHub.

    python examples/drop_in_text.py

In your own encoder, change the class of one layer; `swap_attention` copies an existing encoder.
The task is made up: which of two words occurs more often in a text?
"""

import argparse

import keras
import numpy as np

from keras_quasiattn.layers import MultiHeadCoDA
from keras_quasiattn.models import swap_attention

VOCABULARY, LENGTH, WIDTH, HEADS = 20, 24, 32, 4


def texts(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return ids (count, LENGTH), padded with 0, and whether 1 occurs more often than 2."""
    draw = np.random.default_rng(seed)
    ids = draw.integers(1, VOCABULARY, (count, LENGTH))
    ids[draw.random(ids.shape) < 0.4] = 1
    ids[draw.random(ids.shape) < 0.4] = 2
    ids[np.arange(LENGTH) >= draw.integers(6, LENGTH + 1, (count, 1))] = 0
    return ids, (ids == 1).sum(1) > (ids == 2).sum(1)


def encoder(attention: type[keras.Layer]) -> keras.Model:
    """Two post-norm blocks over token and position embeddings; Keras passes the mask on."""
    ids = keras.Input((None,), dtype="int32")
    x = keras.layers.Embedding(VOCABULARY, WIDTH, mask_zero=True)(ids)
    for _ in range(2):
        attended = attention(num_heads=HEADS, key_dim=WIDTH // HEADS, dropout=0.1)(x, x)
        x = keras.layers.LayerNormalization()(keras.layers.Add()([x, attended]))
        hidden = keras.layers.Dense(2 * WIDTH, activation="gelu")(x)
        x = keras.layers.LayerNormalization()(
            keras.layers.Add()([x, keras.layers.Dense(WIDTH)(hidden)])
        )
    return keras.Model(ids, keras.layers.Dense(2)(keras.layers.GlobalAveragePooling1D()(x)))


def main() -> None:
    """Train three encoders on the same texts."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--examples", type=int, default=2000)
    parser.add_argument("--epochs", type=int, default=5)
    arguments = parser.parse_args()
    keras.utils.set_random_seed(0)
    softmax = encoder(keras.layers.MultiHeadAttention)
    models = {
        "softmax": softmax,
        "CoDA, written by hand": encoder(MultiHeadCoDA),
        "CoDA, by swap_attention": swap_attention(softmax),
    }
    for name, model in models.items():
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.Adam(2e-3), loss, metrics=["accuracy"])
        model.fit(
            *texts(arguments.examples, seed=0), epochs=arguments.epochs, batch_size=64, verbose=0
        )
        _, accuracy = model.evaluate(*texts(500, seed=1), verbose=0)
        print(f"{name}: {accuracy:.3f} of 500 new texts right, {model.count_params():,} weights")


if __name__ == "__main__":
    main()
