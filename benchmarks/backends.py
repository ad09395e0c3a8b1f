"""CoDA on PyTorch and JAX beside the attention of each, and Keras': training and predicting.

`benchmarks.layers` runs this in a process for each backend and size; the backend is that of Keras:

    KERAS_BACKEND=jax python -m benchmarks.backends 16 128 256 4 15 5 perf_counter

The numbers are batch, length, width, heads, repeats and seconds. "own" is `torch.nn.
MultiheadAttention`, or `jax.nn.dot_product_attention` between projections, compiled; it trains in
a plain step of its framework, and CoDA and "keras", which is `keras.layers.MultiHeadAttention`, in
`train_on_batch`, which has more to do for each batch. A ratio is over "own".
"""

import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from benchmarks.measure import interleaved_medians

BACKENDS = tuple(name for name in ("torch", "jax") if importlib.util.find_spec(name))
RATE = 1e-3  # of gradient descent
Ways = dict[str, Callable[[], Any]]


def self_attention(layer: keras.layers.Layer, width: int) -> keras.Model:
    """Return a compiled model of one self-attention layer over (B, T, D)."""
    inputs = keras.Input((None, width))
    model = keras.Model(inputs, layer(inputs, inputs))
    model.compile(keras.optimizers.SGD(RATE), "mse")
    return model


def ways_of(model: keras.Model, x: np.ndarray) -> Ways:
    """Return the calls of a Keras model that are timed."""
    return {
        "train_on_batch": lambda: model.train_on_batch(x, x),
        "predict_on_batch": lambda: model.predict_on_batch(x),
    }


def _own_torch(x: np.ndarray, heads: int) -> Ways:
    import torch

    layer = torch.nn.MultiheadAttention(x.shape[2], heads, batch_first=True)
    optimizer, data = torch.optim.SGD(layer.parameters(), RATE), torch.from_numpy(x)

    def attend() -> Any:
        return layer(data, data, data, need_weights=False)[0]

    def train() -> float:
        layer.train()
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(attend(), data)
        loss.backward()
        optimizer.step()
        return loss.item()

    def predict() -> np.ndarray:
        layer.eval()
        with torch.inference_mode():
            return attend().numpy()

    return {"train_on_batch": train, "predict_on_batch": predict}


def _own_jax(x: np.ndarray, heads: int) -> Ways:
    import jax

    width = x.shape[2]
    keys = jax.random.split(jax.random.key(0), 4)
    kernels = [jax.random.normal(key, (width, width)) * width**-0.5 for key in keys]
    weights = {"kernels": kernels, "biases": [jax.numpy.zeros(width) for _ in keys]}

    @jax.jit
    def attend(weights: Any, x: Any) -> Any:
        *inputs, (kernel, bias) = zip(weights["kernels"], weights["biases"], strict=True)
        split = (*x.shape[:2], heads, width // heads)  # (B, T, N, H)
        query, key, value = ((x @ w + b).reshape(split) for w, b in inputs)
        return jax.nn.dot_product_attention(query, key, value).reshape(x.shape) @ kernel + bias

    @jax.jit
    def step(weights: Any, x: Any) -> Any:
        loss, slopes = jax.value_and_grad(lambda w: ((attend(w, x) - x) ** 2).mean())(weights)
        return loss, jax.tree.map(lambda weight, slope: weight - RATE * slope, weights, slopes)

    def train() -> float:
        nonlocal weights
        loss, weights = step(weights, x)
        return float(loss)

    return {
        "train_on_batch": train,
        "predict_on_batch": lambda: np.asarray(attend(weights, x)),
    }


def rows(size: Any, repeats: int, seconds: float, clock: str) -> list[dict[str, Any]]:
    """Return rows of each installed backend; a ratio is over the framework's own attention."""
    found = []
    for backend in BACKENDS:
        numbers = (*map(str, size), str(repeats), str(seconds), clock)
        said = subprocess.run(
            [sys.executable, "-m", "benchmarks.backends", *numbers],
            env={**os.environ, "KERAS_BACKEND": backend},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        ).stdout
        for way, medians in json.loads(said.splitlines()[-1]).items():
            found += [
                {**size._asdict(), "backend": backend, "way": way, "layer": name, "ms": ms}
                | {"ratio": ms / medians["own"]}
                for name, ms in medians.items()
            ]
    return found


def main() -> None:
    """Print the medians of this backend, {way: {layer: ms}}."""
    from keras_quasiattn.layers import MultiHeadCoDA

    *shape, heads, repeats = map(int, sys.argv[1:6])
    x = np.random.default_rng(0).normal(size=shape).astype("float32")
    own = {"torch": _own_torch, "jax": _own_jax}[keras.backend.backend()](x, heads)
    width = shape[2]
    of_keras, coda = (
        ways_of(self_attention(layer(heads, width // heads), width), x)
        for layer in (keras.layers.MultiHeadAttention, MultiHeadCoDA)
    )
    clock = getattr(time, sys.argv[7])
    print(
        json.dumps(
            {
                way: interleaved_medians(
                    {"own": own[way], "keras": of_keras[way], "coda": coda[way]},
                    repeats,
                    float(sys.argv[6]),
                    clock,
                )
                for way in own
            }
        )
    )


if __name__ == "__main__":
    main()
