"""CoDA instead of softmax in an encoder of image patches, and its weights over the picture.

    python examples/drop_in_image_patches.py

Attention runs over two axes, the rows and columns of patches (`attention_axes`), as in
`keras.layers.MultiHeadAttention`. The task is made up: do two marks in a noisy picture have the
same brightness?
"""

import argparse

import keras
import numpy as np

from keras_quasiattn.layers import MultiHeadCoDA
from keras_quasiattn.models import swap_attention

SIDE, PATCH, WIDTH = 16, 4, 32


def pictures(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return pictures (count, SIDE, SIDE, 1), two patches bright or dark, and if both are alike."""
    draw = np.random.default_rng(seed)
    images = draw.normal(0, 0.2, (count, SIDE, SIDE, 1)).astype("float32")
    sign = draw.choice([-1.0, 1.0], (count, 2))
    cells = SIDE // PATCH
    for image, signs in zip(images, sign, strict=True):
        for place, value in zip(draw.choice(cells**2, 2, replace=False), signs, strict=True):
            row, column = divmod(int(place), cells)
            image[row * PATCH : (row + 1) * PATCH, column * PATCH : (column + 1) * PATCH] += value
    return images, sign[:, 0] == sign[:, 1]


def classifier(attention: type[keras.Layer]) -> keras.Model:
    """Return a model: strided convolution, attention over both axes, a dense layer and a mean."""
    images = keras.Input((SIDE, SIDE, 1))
    x = keras.layers.Conv2D(WIDTH, PATCH, strides=PATCH)(images)  # (B, rows, columns, WIDTH)
    attended = attention(num_heads=2, key_dim=16, attention_axes=(1, 2), name="attention")(x, x)
    x = keras.layers.LayerNormalization()(keras.layers.Add()([x, attended]))
    x = keras.layers.Dense(2 * WIDTH, activation="gelu")(x)
    return keras.Model(images, keras.layers.Dense(2)(keras.layers.GlobalAveragePooling2D()(x)))


def main() -> None:
    """Train three models on the same pictures and print the range of CoDA's weights."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--examples", type=int, default=2000)
    parser.add_argument("--epochs", type=int, default=6)
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
        model.compile(keras.optimizers.Adam(3e-3), loss, metrics=["accuracy"])
        model.fit(
            *pictures(arguments.examples, seed=0), epochs=arguments.epochs, batch_size=64, verbose=0
        )
        _, accuracy = model.evaluate(*pictures(500, seed=1), verbose=0)
        print(f"{name}: {accuracy:.3f} of 500 new pictures right")
    x = model.layers[1](pictures(1, seed=2)[0])
    _, weights = model.get_layer("attention")(x, x, return_attention_scores=True)
    weights = keras.ops.convert_to_numpy(weights)  # (B, N, rows, columns, rows, columns)
    print(f"weights {weights.shape}: from {weights.min():.2f} to {weights.max():.2f}")


if __name__ == "__main__":
    main()
