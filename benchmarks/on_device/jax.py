"""The parts of the checks and times that use JAX; `torch.py` has the same names."""

import functools
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import keras
import numpy as np

Tensor = Any
ON_GPU = jax.default_backend() != "cpu"
MODES = ("jit",)
OWN = "jax dot_product_attention"
# Tracing takes one thread, and compiling as many as there are.
_POOL = ThreadPoolExecutor(max(1, min(8, (os.cpu_count() or 1) // 2)))
# Of many small checks, trying kernels and optimizing loops would take the most time.
_QUICK = {"xla_gpu_autotune_level": 0} if ON_GPU else {"xla_backend_optimization_level": 0}

clock = time.perf_counter


def about() -> dict[str, Any]:
    """Return the device, versions and settings of this process."""
    device = jax.devices()[0]
    stats = device.memory_stats() or {}
    return {
        "device": device.device_kind,
        "jax": jax.__version__,
        "platform": getattr(device.client, "platform_version", None),
        "preallocate": os.environ.get("XLA_PYTHON_CLIENT_PREALLOCATE"),
        "flags": os.environ.get("XLA_FLAGS"),
        "float32 products by default": str(jax.config.jax_default_matmul_precision),
        "memory_mib": stats.get("bytes_limit", 0) / 2**20 or None,
    }


def set_fast_products(fast: bool) -> None:
    """Choose whether float32 products may use TF32, as they do by default."""
    jax.config.update("jax_default_matmul_precision", None if fast else "highest")


def tensor(x: np.ndarray, dtype: str) -> Tensor:
    """Return an array on the device."""
    return jax.numpy.asarray(x, dtype)


def array(x: Tensor) -> np.ndarray:
    """Return a tensor as float64."""
    return np.asarray(x).astype("float64")


def start(
    forward: Callable[..., Tensor], layer: Any, tensors: list[Tensor], upstream: Tensor
) -> Callable[[], Any]:
    """Trace both passes and begin to compile them; `agreement.started` says what comes back."""
    weights = [variable.value for variable in layer.trainable_variables]

    def both(tensors: Any, weights: Any, upstream: Any) -> Any:
        def run(tensors: Any, weights: Any) -> Any:
            with _state(layer, weights):
                return forward(*tensors)

        output, backward = jax.vjp(run, tensors, weights)
        return output, backward(upstream)

    arguments = (tensors, weights, upstream)
    compiled = _POOL.submit(_compile_quickly, jax.jit(both).lower(*arguments))

    def finish() -> Any:
        output, (of_tensors, of_weights) = compiled.result()(*arguments)
        return array(output), [array(x) for x in (*of_tensors, *of_weights)]

    return finish


def _compile_quickly(lowered: Any) -> Any:
    try:
        return lowered.compile(compiler_options=_QUICK)
    except Exception:  # a version that does not know the option
        return lowered.compile()


def _state(layer: Any, weights: Any) -> keras.StatelessScope:
    return keras.StatelessScope(
        state_mapping=list(zip(layer.trainable_variables, weights, strict=True))
    )


def own_attention(dtype: str) -> dict[str, tuple[Callable[..., Tensor], bool]]:
    """Return the attention of JAX by name, and whether heads come before positions in it."""
    found = {OWN: (jax.nn.dot_product_attention, False)}
    if ON_GPU and dtype != "float32":
        flash = functools.partial(jax.nn.dot_product_attention, implementation="cudnn")
        found[f"{OWN}, cudnn"] = (flash, False)
    return found


def prepared(
    function: Callable[..., Tensor], tensors: list[Tensor], mode: str, backward: bool
) -> Callable[[], Callable[[int], None]]:
    """Return n calls of a core: forward, or both passes with the gradients of all tensors."""

    def both(*tensors: Any) -> Any:
        output, gradients = jax.vjp(function, *tensors)
        return gradients(output)

    return _compiled(both if backward else function, tensors)


def prepared_layer(
    layer: Any, x: Tensor, mode: str, train: bool
) -> Callable[[], Callable[[int], None]]:
    """Return a layer's update (forward, backward, gradient descent), or its prediction."""

    def predict(weights: Any, x: Any) -> Any:
        with _state(layer, weights):
            return layer(x, x, training=train)

    def step(weights: Any, x: Any) -> Any:
        def loss(weights: Any) -> Any:
            return ((predict(weights, x).astype("float32") - x.astype("float32")) ** 2).mean()

        found, slopes = jax.value_and_grad(loss)(weights)
        return found, jax.tree.map(lambda weight, slope: weight - 1e-3 * slope, weights, slopes)

    weights = [variable.value for variable in layer.trainable_variables]
    return _compiled(step if train else predict, [weights, x])


def _compiled(function: Callable[..., Any], arguments: list[Any]) -> Any:
    compiled = _POOL.submit(jax.jit(function).lower(*arguments).compile)

    def ready() -> Callable[[int], None]:
        program = compiled.result()

        def call(count: int) -> None:
            for _ in range(count):
                result = program(*arguments)
            jax.block_until_ready(result)

        call.program = program  # type: ignore[attr-defined]
        return call

    return ready


def memory(call: Any) -> float | None:
    """MiB that a call takes above its arguments, as the compiler plans it."""
    planned = call.program.memory_analysis()
    if planned is None:
        return None
    return (planned.temp_size_in_bytes + planned.output_size_in_bytes) / 2**20


def free_bytes() -> float:
    """Return how many bytes may still be allocated."""
    stats = jax.devices()[0].memory_stats() or {}
    return stats.get("bytes_limit", float("inf")) - stats.get("bytes_in_use", 0)


def clear() -> None:
    """Forget compiled programs and what they hold."""
    jax.clear_caches()


def is_alive() -> bool:
    """Return whether the device still computes: after some errors it does not, in this process."""
    try:
        return float(jax.numpy.ones(2).sum()) == 2
    except Exception:
        return False
