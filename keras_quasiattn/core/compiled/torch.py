"""PyTorch operators that run compiled code and that `torch.compile` leaves unchanged.

They run Numba's loops on CPUs, and the call's own kernels on NVIDIA GPUs.
"""

import ctypes
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch.autograd import forward_ad

from keras_quasiattn.core.compiled.call import Call, read, written
from keras_quasiattn.core.compiled.threads import Share, over_cores

Tensor = torch.Tensor


def outputs(call: Call, tensors: list[Tensor], masks: list[Tensor]) -> Sequence[Tensor]:
    """Return the outputs of `call`; tensors compute them in forward-mode differentiation."""
    if not torch.compiler.is_compiling() and any(
        forward_ad.unpack_dual(x).tangent is not None for x in tensors
    ):
        return call.with_tensors((*tensors, *masks))
    found: tuple[Tensor, ...] = _Outputs.apply(written(call), len(tensors), *tensors, *masks)
    return found


class _Outputs(torch.autograd.Function):
    """The operators as one differentiable function; tensors compute second derivatives."""

    @staticmethod
    def forward(text: str, count: int, *tensors: Tensor) -> tuple[Tensor, ...]:
        return tuple(_forward(tensors, text))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.text, ctx.count, *tensors = inputs
        ctx.save_for_backward(*tensors)

    @staticmethod
    def backward(ctx: Any, *upstreams: Tensor) -> tuple[Any, ...]:
        tensors = ctx.saved_tensors
        if torch.is_grad_enabled() and not torch.compiler.is_compiling():
            found = _slopes(read(ctx.text), upstreams, tensors, ctx.count)
        else:
            found = _backward(upstreams, tensors, ctx.text)
        return None, None, *found, *[None] * (len(tensors) - ctx.count)


def _slopes(
    call: Call, upstreams: Sequence[Tensor], tensors: Sequence[Tensor], count: int
) -> list[Tensor | None]:
    """Compute the gradients of `count` inputs with tensors, which can be differentiated again."""
    # Views, because an input may depend on another one, whose gradient must not include that.
    inputs = [x.view_as(x) for x in tensors[:count]]
    outputs = call.with_tensors((*inputs, *tensors[count:]))
    wanted = [x for x in inputs if x.requires_grad]
    found = iter(torch.autograd.grad(outputs, wanted, upstreams, create_graph=True))
    return [next(found) if x.requires_grad else None for x in inputs]


@torch.library.custom_op(
    "keras_quasiattn::compiled",
    mutates_args=(),
    schema="(Tensor[] tensors, str call) -> Tensor[]",
    device_types="cpu",
)
def _forward(tensors: Sequence[Tensor], text: str) -> list[Tensor]:
    found = read(text).run(_arrays(tensors), spread=_over_team)
    return [torch.from_numpy(x) for x in found]


@torch.library.custom_op(
    "keras_quasiattn::compiled_backward",
    mutates_args=(),
    schema="(Tensor[] upstreams, Tensor[] tensors, str call) -> Tensor[]",
    device_types="cpu",
)
def _backward(upstreams: list[Tensor], tensors: Sequence[Tensor], text: str) -> list[Tensor]:
    found = read(text).run(_arrays(tensors), _arrays(upstreams), spread=_over_team)
    return [torch.from_numpy(x) for x in found]


@_forward.register_kernel("cuda")
def _forward_on_gpu(tensors: Sequence[Tensor], text: str) -> list[Tensor]:
    call: Any = read(text)
    found: list[Tensor] = call.run_on_gpu(tensors)
    return found


@_backward.register_kernel("cuda")
def _backward_on_gpu(upstreams: list[Tensor], tensors: Sequence[Tensor], text: str) -> list[Tensor]:
    call: Any = read(text)
    found: list[Tensor] = call.run_on_gpu(tensors, upstreams)
    return found


@_forward.register_fake
def _forward_shapes(tensors: Sequence[Tensor], text: str) -> list[Tensor]:
    shapes = read(text).output_shapes([x.shape for x in tensors])
    return [tensors[0].new_empty(shape) for shape in shapes]


@_backward.register_fake
def _backward_shapes(
    upstreams: Sequence[Tensor], tensors: Sequence[Tensor], text: str
) -> list[Tensor]:
    return [x.new_empty(x.shape) for x in tensors[: len(read(text).names)]]


def _arrays(tensors: Sequence[Tensor]) -> list[Any]:
    return [x.numpy(force=True) for x in tensors]


def _over_team(share: Share, most: int) -> None:
    """Call `share` on PyTorch's own threads, because a second pool would compete for the cores."""
    count = max(1, min(torch.get_num_threads(), most))
    team = _team()
    if count == 1 or team is None:
        return over_cores(share, count)
    parallel, number, size = team
    errors: list[BaseException] = []

    def run(_: Any) -> None:
        try:
            share(number(), size())  # a nested team may have fewer threads
        except BaseException as error:  # C code would only print it
            errors.append(error)

    parallel(_BODY(run), None, count, 0)
    if errors:
        raise errors[0]


_BODY = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


@cache
def _team() -> tuple[Any, Any, Any] | None:
    """Return three functions of PyTorch's own OpenMP: run a team, thread number, team size."""
    library = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
    try:
        loaded = ctypes.CDLL(str(library))
        parallel = loaded.GOMP_parallel
        number, size = loaded.omp_get_thread_num, loaded.omp_get_num_threads
    except (OSError, AttributeError):
        return None
    parallel.argtypes = [_BODY, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint]
    parallel.restype = None
    return parallel, number, size
