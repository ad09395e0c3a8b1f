"""CoDA compared with softmax attention on JAX, compiled: table and JSON as in `benchmarks.coda`.

KERAS_BACKEND=jax python -m benchmarks.coda_jax --lengths 256 --features 64 --output run.json
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import keras
import numpy as np

from benchmarks import report
from benchmarks.measure import interleaved_medians, machine, write_json
from keras_quasiattn import ops

Array = Any


def softmax_core(query: Array, key: Array, value: Array) -> Array:
    """Plain softmax attention."""
    scores = jnp.einsum("btd,bsd->bts", query, key) * query.shape[-1] ** -0.5
    # (heads, T, S) by (heads, S, D) to (heads, T, D)
    return jnp.einsum("bts,bsd->btd", jax.nn.softmax(scores), value)


def coda_by_broadcasting(query: Array, key: Array, value: Array) -> Array:
    """CoDA written naively, with a (heads, T, S, D) tensor."""
    scale = query.shape[-1] ** -0.5
    # (heads, T, 1, D) − (heads, 1, S, D), summed over D: (heads, T, S)
    distance = jnp.abs(query[:, :, None] - key[:, None]).sum(-1) * scale
    similarity = jnp.einsum("btd,bsd->bts", query, key) * scale
    weights = jnp.tanh(similarity) * 2 * jax.nn.sigmoid(-distance)
    return jnp.einsum("bts,bsd->btd", weights, value)


def coda(query: Array, key: Array, value: Array) -> Array:
    """`ops.coda_attention`, blockwise."""
    scale = query.shape[-1] ** -0.5
    return ops.coda_attention(
        query, key, value, alpha=scale, beta=scale, implementation="blockwise"
    )


FUNCTIONS: dict[str, Callable[..., Array]] = {
    "softmax": softmax_core,
    "broadcast": coda_by_broadcasting,
    "blockwise": coda,
}


def rows(heads: int, length: int, features: int, repeats: int) -> list[dict[str, Any]]:
    """Median times of every function at one size, forward and both passes."""
    generator = np.random.default_rng(0)
    arrays = [
        jnp.asarray(generator.normal(size=(heads, length, features)), "float32") for _ in range(3)
    ]
    calls = {}
    for name, function in FUNCTIONS.items():
        gradient = jax.grad(
            lambda *given, run=function: (run(*given) ** 2).sum(), argnums=(0, 1, 2)
        )
        for passes, compiled in (("forward", jax.jit(function)), ("both", jax.jit(gradient))):
            calls[name, passes] = lambda run=compiled: jax.block_until_ready(run(*arrays))
    return [
        {
            "heads": heads,
            "length": length,
            "features": features,
            "case": name,
            "passes": passes,
            "ms": ms,
        }
        for (name, passes), ms in interleaved_medians(calls, repeats).items()
    ]


def main() -> None:
    """Run the measurements that the options ask for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--heads", type=int, default=32, help="batch times heads")
    parser.add_argument("--lengths", type=int, nargs="+", default=[256], help="T = S")
    parser.add_argument("--features", type=int, nargs="+", default=[64], help="size of a head")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--output", type=Path, help="a .json")
    options = parser.parse_args()
    if keras.backend.backend() != "jax":
        parser.error(f"the Keras backend is {keras.backend.backend()}: set KERAS_BACKEND=jax")
    result = {"machine": {**machine(), "device": str(jax.devices()[0])}, "core": []}
    for features in options.features:
        for length in options.lengths:
            result["core"] += rows(options.heads, length, features, options.repeats)
    print(report.table(result["core"]))
    if options.output:
        write_json(result, options.output)


if __name__ == "__main__":
    main()
