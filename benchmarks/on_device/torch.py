"""The parts of the checks and times that use PyTorch; `jax.py` has the same names."""

import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

Tensor = Any
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
ON_GPU = DEVICE.type == "cuda"
MODES = ("eager", "compile")
# On a CPU, where it is only tried, no C++ is compiled.
_COMPILER = "inductor" if ON_GPU else "aot_eager"
OWN = "torch scaled_dot_product_attention"


def about() -> dict[str, Any]:
    """Return the device, versions and settings of this process."""
    found: dict[str, Any] = {
        "device": torch.cuda.get_device_name() if ON_GPU else "CPU",
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version() if ON_GPU else None,
        "allocator": os.environ.get("PYTORCH_CUDA_ALLOC_CONF"),
        "float32 products by default": torch.get_float32_matmul_precision(),
    }
    if ON_GPU:
        found["capability"] = ".".join(map(str, torch.cuda.get_device_capability()))
        found["memory_mib"] = torch.cuda.mem_get_info()[1] / 2**20
    return found


def set_fast_products(fast: bool) -> None:
    """Choose whether float32 products may use TF32."""
    torch.set_float32_matmul_precision("high" if fast else "highest")


def tensor(x: np.ndarray, dtype: str) -> Tensor:
    """Return an array on the device."""
    return torch.from_numpy(np.ascontiguousarray(x)).to(DEVICE, getattr(torch, dtype))


def array(x: Tensor) -> np.ndarray:
    """Return a tensor as float64."""
    return x.detach().double().cpu().numpy()


def start(
    forward: Callable[..., Tensor], layer: Any, tensors: list[Tensor], upstream: Tensor
) -> Callable[[], Any]:
    """Return a function that runs both passes, as `agreement.started` says."""

    def finish() -> Any:
        leaves = [x.requires_grad_() for x in tensors]
        weights = [variable.value for variable in layer.trainable_variables]
        output = forward(*leaves)
        gradients = torch.autograd.grad(output, [*leaves, *weights], upstream, allow_unused=True)
        return array(output), [None if x is None else array(x) for x in gradients]

    return finish


def own_attention(dtype: str) -> dict[str, tuple[Callable[..., Tensor], bool]]:
    """Return the attention of PyTorch by name, and whether heads come before positions in it."""
    return {OWN: (torch.nn.functional.scaled_dot_product_attention, True)}


def prepared(
    function: Callable[..., Tensor], tensors: list[Tensor], mode: str, backward: bool
) -> Callable[[], Callable[[int], None]]:
    """Return n calls of a core: forward, or both passes with the gradients of all tensors."""
    run = _compiled(function, mode)

    def once() -> None:
        if not backward:
            with torch.no_grad():
                run(*tensors)
            return
        output = run(*leaves)
        torch.autograd.grad(output, leaves, output.detach(), allow_unused=True)

    leaves = [x.detach().requires_grad_() for x in tensors] if backward else tensors
    return lambda: _times(once)


def prepared_layer(
    layer: Any, x: Tensor, mode: str, train: bool
) -> Callable[[], Callable[[int], None]]:
    """Return a layer's update (forward, backward, gradient descent), or its prediction."""
    weights = [variable.value for variable in layer.trainable_variables]
    run = _compiled(lambda x: layer(x, x, training=train), mode)

    def once() -> None:
        if not train:
            with torch.no_grad():
                run(x)
            return
        loss = (run(x).float() - x.float()).square().mean()
        slopes = torch.autograd.grad(loss, weights, allow_unused=True)
        with torch.no_grad():
            for weight, slope in zip(weights, slopes, strict=True):
                if slope is not None:
                    weight.sub_(slope, alpha=1e-3)

    return lambda: _times(once)


def _compiled(function: Callable[..., Tensor], mode: str) -> Callable[..., Tensor]:
    if mode == "eager":
        return function
    return torch.compile(function, dynamic=False, backend=_COMPILER)


def _times(once: Callable[[], None]) -> Callable[[int], None]:
    def call(count: int) -> None:
        for _ in range(count):
            once()

    return call


class _Events:
    """A clock of CUDA events: seconds of the device, which it waits for."""

    def __init__(self) -> None:
        self.last: Any = None
        self.seconds = 0.0

    def __call__(self) -> float:
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        event.synchronize()
        # From event to event: milliseconds since the start would lose digits.
        if self.last is not None:
            self.seconds += self.last.elapsed_time(event) * 1e-3
        self.last = event
        return self.seconds


clock: Callable[[], float] = _Events() if ON_GPU else time.perf_counter


def memory(call: Callable[[int], None]) -> float | None:
    """MiB that a call takes at its peak, above what there is before it."""
    if not ON_GPU:
        return None
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    call(1)
    torch.cuda.synchronize()
    return (torch.cuda.max_memory_allocated() - before) / 2**20


def free_bytes() -> float:
    """Return how many bytes may still be allocated."""
    return torch.cuda.mem_get_info()[0] if ON_GPU else float("inf")


def clear() -> None:
    """Return unused memory, so that one case leaves no holes for the next."""
    torch.compiler.reset()
    if ON_GPU:
        torch.cuda.empty_cache()


def is_alive() -> bool:
    """Return whether the device still computes: after some errors it does not, in this process."""
    try:
        return float(torch.ones(2, device=DEVICE).sum()) == 2
    except Exception:
        return False
