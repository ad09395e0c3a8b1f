"""PyTorch: its own maximum, cumulative sum and segment reductions.

Keras' maximum and cumulative sum round float64 to float32, and its segment reductions fail on empty
data.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from keras import ops
from torch import abs as absolute
from torch import maximum
from torch._functorch.pyfunctorch import retrieve_all_functorch_interpreters
from torch.utils.checkpoint import checkpoint

__all__ = ["absolute", "arctan", "cos", "cumsum", "loop", "maximum", "sin", "tanh"]

cumsum = functools.partial(torch.cumsum, dim=-1)
arctan, cos, loop, sin, tanh = ops.arctan, ops.cos, ops.fori_loop, ops.sin, ops.tanh

Tensor = Any


def with_gradient(
    compute: Callable[..., tuple[Tensor, ...]], gradient: Callable[..., tuple[Tensor, ...]]
) -> Callable[..., tuple[Tensor, ...]]:
    """Return `compute` with gradients from `gradient`, in reverse and in forward mode.

    `torch.func.vmap` gets its own gradients, because it cannot map a function that holds tensors.
    """

    def run(*tensors: Tensor) -> tuple[Tensor, ...]:
        if _is_mapped():
            return compute(*tensors)
        found: tuple[Tensor, ...] = _WithGradient.apply(compute, gradient, *tensors)
        return found

    return run


class _WithGradient(torch.autograd.Function):
    @staticmethod
    def forward(compute: Any, gradient: Any, *tensors: Tensor) -> tuple[Tensor, ...]:
        # Copies, because forward mode would take parts of a tensor for parts of an input.
        return tuple(x.clone() for x in compute(*tensors))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        _, ctx.gradient, *tensors = inputs
        ctx.shapes = [x.shape for x in output]
        ctx.save_for_backward(*tensors)
        ctx.save_for_forward(*tensors)

    @staticmethod
    def backward(ctx: Any, *upstreams: Tensor) -> tuple[Tensor | None, ...]:
        tensors = ctx.saved_tensors  # a rematerialized function unpacks them only once
        found = ctx.gradient(tensors, upstreams)
        return None, None, *found, *[None] * (len(tensors) - len(found))

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor | None) -> tuple[Tensor, ...]:
        # The gradient is linear in the upstreams: its own gradient is the forward derivative.
        tensors, again = ctx.saved_tensors, torch.is_grad_enabled()
        with torch.enable_grad():
            upstreams = [tensors[0].new_zeros(x, requires_grad=True) for x in ctx.shapes]
            slopes = ctx.gradient(tensors, upstreams)
            pairs = zip(slopes, tangents[2:], strict=False)  # the last tensors may have none
            moved = [(slope, tangent) for slope, tangent in pairs if tangent is not None]
            nothing = sum(0 * upstream.sum() for upstream in upstreams)  # so that all take part
            total = sum(((slope * tangent).sum() for slope, tangent in moved), nothing)
            return torch.autograd.grad(total, upstreams, create_graph=again)


def add_rows(total: Tensor, x: Tensor) -> Tensor:
    """Return the sum total + Σ_n x[n]."""
    return total + x.sum(dim=0)


def put_row(rows: Tensor, index: int, row: Tensor) -> Tensor:
    """Return `rows` with one replaced; Keras writes in place, which `torch.func.vmap` refuses."""
    return torch.select_scatter(rows, row, 0, index)


def l1_distances(x: Tensor, y: Tensor) -> Tensor | None:
    """Return ‖x[t] − y[s]‖₁ as (B, T, S), computed by one kernel; None under `torch.func.vmap`.

    There the kernel is differentiated, which it cannot be in forward mode.
    """
    return None if _is_mapped() else torch.cdist(x, y, p=1.0)


def l1_gradients(x: Tensor, y: Tensor, upstream: Tensor) -> tuple[Tensor, Tensor] | None:
    """Return the gradients of Σ upstream · distance, for x (B, T, F) and y (B, S, F).

    The kernel is the derivative of `torch.cdist`. PyTorch's public functions for it would recompute
    the distances. `upstream` is (B, T, S). None if they may be differentiated again, as this kernel
    cannot be.
    """
    if torch.is_grad_enabled():
        return None

    def gradient(x: Tensor, y: Tensor, upstream: Tensor) -> Tensor:
        # The last argument is the distances, which this norm does not need.
        return torch.ops.aten._cdist_backward(upstream, x, y, 1.0, upstream)

    other = upstream.transpose(1, 2).contiguous()
    return gradient(x, y, upstream.contiguous()), gradient(y, x, other)


def on_accelerator(x: Tensor) -> bool:
    """Return whether `x` is on a GPU; a symbolic `x` has no device."""
    device = getattr(x, "device", None)
    return device is not None and device.type not in ("cpu", "meta")


def runs_op_by_op() -> bool:
    """Return True: PyTorch calls a kernel for every operation."""
    return True


# On a GPU: the major compute capability that was tested, and how many features fit its memory.
_CAPABILITY, _MOST_FEATURES = 9, 512


def obstacle_to_loops(x: Tensor, features: int) -> str | None:
    """Say why compiled code cannot run: the device, or a graph made for other programs."""
    # Keras infers shapes with tensors that have no device or are on "meta".
    device = getattr(x, "device", None)
    if device is not None and device.type not in ("cpu", "cuda", "meta"):
        return f"runs on CPUs and NVIDIA GPUs only. Received: a tensor on {str(device)!r}"
    if on_accelerator(x):
        capability = torch.cuda.get_device_capability(device)
        if torch.version.cuda is None or capability[0] != _CAPABILITY:
            return (
                f"runs on GPUs of NVIDIA with compute capability {_CAPABILITY} only. "
                f"Received: {torch.cuda.get_device_name(device)}, {'.'.join(map(str, capability))}"
            )
        if x.dtype == torch.float64:
            return "computes in float32 on a GPU. Received: a tensor of float64"
        if features > _MOST_FEATURES:
            return (
                f"takes queries and values of at most {_MOST_FEATURES} features together on a GPU. "
                f"Received: {features}"
            )
    if torch.compiler.is_exporting() or torch.jit.is_tracing():
        return "cannot be exported"
    return None


def keeps_loops(training: Callable[[], bool]) -> bool:
    """Return True unless `torch.func` transforms the call, which it cannot do with loops.

    A graph that `torch.compile` makes stays in this process.
    """
    return torch.compiler.is_compiling() or not _is_transformed()


def _is_transformed() -> bool:
    # PyTorch has no public way to detect a transform.
    return torch._C._functorch.maybe_current_level() is not None


def _is_mapped() -> bool:
    kind = torch._C._functorch.TransformType.Vmap
    return any(one.key() == kind for one in retrieve_all_functorch_interpreters())


def known_content(x: Tensor) -> np.ndarray | None:
    """Return the array of a tensor on the CPU that is not traced."""
    if not may_branch(x):
        return None
    x = x.detach()
    return (x.double() if x.is_floating_point() else x).numpy()  # NumPy has no bfloat16


def may_branch(x: Tensor) -> bool:
    """Return whether the content can be read here and now: on the CPU, and not traced."""
    is_traced = torch.compiler.is_compiling() or torch.jit.is_tracing() or _is_transformed()
    return x.device.type == "cpu" and not is_traced


def needs_static_shapes(x: Tensor) -> bool:
    """Return whether `torch.func.vmap` maps the call: the sizes must then be the same for all."""
    return _is_mapped()


def segment_sum(data: Tensor, segment_ids: Tensor, num_segments: int) -> Tensor:
    """Sum the rows of `data` (K, ...) by `segment_ids` (K,); 0 for a segment without rows."""
    zeros = torch.zeros((num_segments, *data.shape[1:]), dtype=data.dtype, device=data.device)
    return zeros.index_add(0, segment_ids, data)


def segment_max(data: Tensor, segment_ids: Tensor, num_segments: int) -> Tensor:
    """Return the maxima of `data` (K,) by `segment_ids` (K,); −∞ for an empty segment."""
    lowest = torch.full((num_segments,), -torch.inf, dtype=data.dtype, device=data.device)
    return lowest.scatter_reduce(0, segment_ids.long(), data, "amax")


def map_tiles(
    function: Callable[..., Tensor], count: Any, tiles: dict[str, Tensor], shared: dict[str, Tensor]
) -> Tensor:
    """Map a function over tiles; checkpointing recomputes each in the backward pass."""

    def of_tile(index: int, own: dict[str, Tensor]) -> Tensor:
        return function(index, **own, **shared)

    outputs = []
    for index in range(count):
        own = {name: x[index] for name, x in tiles.items()}
        outputs.append(checkpoint(of_tile, index, own, use_reentrant=False))
    return torch.stack(outputs)
