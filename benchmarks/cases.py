"""The cases: softmax and CoDA in plain TensorFlow, each implementation here, and whole layers."""

from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from keras_quasiattn import layers, ops

Function = Callable[..., Any]


class Size(NamedTuple):
    """Sizes of the whole-layer cases."""

    batch: int = 16
    length: int = 128
    width: int = 256
    heads: int = 4


def tensors(heads: int, length: int, features: int, count: int = 3) -> list[tf.Tensor]:
    """`count` standard normal tensors of shape (heads, length, features)."""
    generator = np.random.default_rng(0)
    return [
        tf.constant(generator.normal(size=(heads, length, features)), tf.float32)
        for _ in range(count)
    ]


def softmax_core(query: tf.Tensor, key: tf.Tensor, value: tf.Tensor) -> tf.Tensor:
    """Plain softmax attention."""
    scale = query.shape[-1] ** -0.5
    # (heads, T, S) weights, (heads, T, D) output
    return tf.matmul(tf.nn.softmax(tf.matmul(query, key, transpose_b=True) * scale), value)


def coda_by_broadcasting(query: tf.Tensor, key: tf.Tensor, value: tf.Tensor) -> tf.Tensor:
    """CoDA written naively, with a (heads, T, S, D) tensor."""
    scale = query.shape[-1] ** -0.5
    similarity = tf.matmul(query, key, transpose_b=True) * scale  # (heads, T, S)
    # (heads, T, 1, D) − (heads, 1, S, D), summed over D: (heads, T, S)
    distance = tf.reduce_sum(tf.abs(query[:, :, None] - key[:, None]), -1) * scale
    return tf.matmul(tf.tanh(similarity) * 2 * tf.sigmoid(-distance), value)


def coda(implementation: str) -> Function:
    """`ops.coda_attention` with one implementation, composed as in `coda_by_broadcasting`.

    `training=True`, so that "auto" chooses as in an update.
    """

    def function(query: tf.Tensor, key: tf.Tensor, value: tf.Tensor) -> tf.Tensor:
        scale = query.shape[-1] ** -0.5
        return ops.coda_attention(
            query, key, value, alpha=scale, beta=scale, implementation=implementation, training=True
        )

    return function


def both_passes(function: Function) -> Function:
    """Forward and backward pass: the gradients of a sum of squares for every argument."""

    def run(*arguments: tf.Tensor) -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch(arguments)
            total = tf.reduce_sum(tf.square(function(*arguments)))
        return tape.gradient(total, arguments)

    return run


def ready(function: Function, arguments: list[tf.Tensor], mode: str) -> Callable[[], Any]:
    """Return a call that waits for its result; `mode` is "eager", "graph" or "xla"."""
    if mode != "eager":
        function = tf.function(function, jit_compile=mode == "xla")

    def call() -> None:
        for result in tf.nest.flatten(function(*arguments)):
            result.numpy()

    return call


def layer_step(
    layer: keras.layers.Layer, size: Size, jit_compile: bool = False
) -> Callable[[], Any]:
    """Return an update (forward, backward, SGD) of one self-attention layer."""
    inputs = keras.Input((None, size.width))
    return _step(keras.Model(inputs, layer(inputs, inputs)), size, jit_compile)


def transformer_step(attention: str, size: Size, depth: int = 2) -> Callable[[], Any]:
    """Return an update of a stack of `layers.TransformerEncoder` without dropout.

    `attention` is "softmax" or "coda".
    """
    inputs = x = keras.Input((None, size.width))
    for _ in range(depth):
        x = layers.TransformerEncoder(4 * size.width, size.heads, attention)(x)
    return _step(keras.Model(inputs, x), size, jit_compile=False)


def _step(model: keras.Model, size: Size, jit_compile: bool) -> Callable[[], Any]:
    x = tf.random.stateless_normal((size.batch, size.length, size.width), (1, 2))  # (B, T, D)
    optimizer = keras.optimizers.SGD(1e-3)
    optimizer.build(model.trainable_variables)

    @tf.function(jit_compile=jit_compile)
    def step() -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x, training=True)))
        variables = [variable.value for variable in model.trainable_variables]
        optimizer.apply(tape.gradient(loss, variables), model.trainable_variables)
        return loss

    return lambda: step().numpy()
