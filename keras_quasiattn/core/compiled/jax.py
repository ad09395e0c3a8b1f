"""The compiled loops as a primitive of JAX: a foreign function of XLA in programs for this process.

A program that is exported or lowered for another platform computes with tensors instead.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, Literal

import jax
from jax import numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from keras_quasiattn.core.compiled import xla_call
from keras_quasiattn.core.compiled.call import Call, written

Tensor = Any

_TARGET = "keras_quasiattn_compiled"
jax.ffi.register_ffi_target(_TARGET, jax.ffi.pycapsule(xla_call.FUNCTION), platform="cpu")


def outputs(call: Call, tensors: list[Tensor], masks: list[Tensor]) -> Sequence[Tensor]:
    """Return the outputs of `call`."""
    found: Sequence[Tensor] = _calls.bind(*tensors, *masks, call=call, part="outputs")
    return found


# (*tensors, *masks) → outputs, (*upstreams, *tensors, *masks) → gradients of the tensors, or
# (*tangents of the tensors, *tensors, *masks) → tangents of the outputs. The last two are each
# other's transpose, and only tensors compute the last.
Part = Literal["outputs", "gradients", "tangents"]
_calls = Primitive("keras_quasiattn_compiled")
_calls.multiple_results = True


def _split(operands: Sequence[Any], call: Call) -> tuple[Sequence[Any], ...]:
    """Split the operands into upstream gradients or tangents, tensors and masks."""
    masks = len(operands) - len(call.masks)
    tensors = masks - len(call.names)
    return operands[:tensors], operands[tensors:masks], operands[masks:]


@_calls.def_abstract_eval
def _shapes(*operands: Any, call: Call, part: Part) -> list[Any]:
    tensors = _split(operands, call)[1]
    if part == "gradients":
        return [x.update(weak_type=False) for x in tensors]
    # `update` keeps the mesh axes over which the array varies.
    shapes = call.output_shapes([x.shape for x in tensors])
    return [tensors[0].update(shape=shape, weak_type=False) for shape in shapes]


@functools.cache
def _program(call: Call, part: Part) -> Callable[..., list[Tensor]]:
    return jax.jit(functools.partial(_calls.bind, call=call, part=part))


@_calls.def_impl
def _run(*operands: Tensor, call: Call, part: Part) -> list[Tensor]:
    with jax.disable_jit(False):  # as for any other primitive
        found: list[Tensor] = _program(call, part)(*operands)
    return found


def _lower(context: Any, *operands: Any, call: Call, part: Part) -> Any:
    module = context.module_context
    stays = not module.lowering_parameters.for_export and tuple(module.platforms) == ("cpu",)
    if not stays and not call.may_be_tensors:
        raise ValueError(
            "Compiled loops cannot be exported or lowered for another platform than this process' "
            f"CPUs: {call.way_out}. Received: platforms {tuple(module.platforms)}."
        )
    function = _as_foreign_function if stays and part != "tangents" else _as_tensors
    lowered = mlir.lower_fun(functools.partial(function, call, part), multiple_results=True)
    return lowered(context, *operands)


mlir.register_lowering(_calls, _lower)


def _as_foreign_function(call: Call, part: Part, *operands: Tensor) -> list[Tensor]:
    results = _shapes(*map(jax.typeof, operands), call=call, part=part)
    run = jax.ffi.ffi_call(_TARGET, [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in results])
    return list(run(*operands, call=written(call)))


def _as_tensors(call: Call, part: Part, *operands: Tensor) -> list[Tensor]:
    given, tensors, masks = _split(operands, call)

    def forward(*tensors: Tensor) -> tuple[Tensor, ...]:
        return tuple(call.with_tensors((*tensors, *masks)))

    if part == "outputs":
        return list(forward(*tensors))
    outputs, slopes = jax.vjp(forward, *tensors)
    if part == "gradients":
        return list(slopes(tuple(given)))
    # Twice in reverse, because a function with its own gradient has no forward mode.
    return list(jax.vjp(slopes, tuple(map(jnp.zeros_like, outputs)))[1](tuple(given))[0])


def _derivative(primals: Any, tangents: Any, *, call: Call, part: Part) -> Any:
    """Differentiate the outputs by a linear call, and anything else by tensors."""
    moved = tuple(map(ad.instantiate_zeros, tangents))
    if part != "outputs":
        return jax.jvp(functools.partial(_as_tensors, call, part), tuple(primals), moved)
    found = _calls.bind(*primals, call=call, part=part)
    moved = moved[: len(call.names)]
    return found, _calls.bind(*moved, *primals, call=call, part="tangents")


ad.primitive_jvps[_calls] = _derivative


def _transpose(upstreams: Sequence[Any], *operands: Any, call: Call, part: Part) -> list[Any]:
    """Return a gradient for each operand in which the call is linear."""
    linear, tensors, masks = _split(operands, call)
    given = map(ad.instantiate_zeros, upstreams)
    other: Part = "gradients" if part == "tangents" else "tangents"
    found = _calls.bind(*given, *tensors, *masks, call=call, part=other)
    pairs = zip(linear, found, strict=True)
    return [one if ad.is_undefined_primal(x) else None for x, one in pairs] + [None] * (
        len(operands) - len(linear)
    )


ad.primitive_transposes[_calls] = _transpose


def _batch(operands: Sequence[Tensor], axes: Sequence[Any], *, call: Call, part: Part) -> Any:
    """Merge the new axis of each operand with its first axis."""
    count = next(x.shape[a] for x, a in zip(operands, axes, strict=True) if a is not None)
    lead = [
        x[None] if axis is None else jnp.moveaxis(x, axis, 0)
        for x, axis in zip(operands, axes, strict=True)
    ]
    upstreams, tensors, masks = _split(lead, call)
    batch = tensors[0].shape[1]

    def merged(x: Tensor) -> Tensor:
        return jnp.broadcast_to(x, (count, batch, *x.shape[2:])).reshape(
            (count * batch, *x.shape[2:])
        )

    given = dict(zip(call.masks, masks, strict=True))
    if "full_mask" in given:  # (1 or count, masks, T, S): the first axis is found by index
        groups, size = given["full_mask"].shape[:2]
        given["full_index"] += size * jnp.arange(groups, dtype="int32")[:, None]
    new = [
        x.reshape((-1, *x.shape[2:])) if name == "full_mask" else merged(x)
        for name, x in given.items()
    ]
    results = _calls.bind(*map(merged, (*upstreams, *tensors)), *new, call=call, part=part)
    return [x.reshape((count, batch, *x.shape[1:])) for x in results], [0] * len(results)


batching.primitive_batchers[_calls] = _batch
