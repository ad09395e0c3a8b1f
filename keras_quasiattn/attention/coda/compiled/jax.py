"""The compiled loops as a primitive of JAX: a foreign function of XLA in programs for this process.

A program that is exported or lowered for another platform computes with tensors instead.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax import numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from keras_quasiattn.attention.coda.compiled import xla_call
from keras_quasiattn.attention.coda.compiled.call import Call
from keras_quasiattn.attention.coda.composition import WeightRule
from keras_quasiattn.attention.coda.tiles import TiledWeights, TileMasks, tiled_sums
from keras_quasiattn.core.tiling import keys_per_tile

Tensor = Any

_TARGET = "keras_quasiattn_coda_passes"
jax.ffi.register_ffi_target(_TARGET, jax.ffi.pycapsule(xla_call.FUNCTION), platform="cpu")


def sums(call: Call, tensors: list[Tensor], masks: list[Tensor]) -> Sequence[Tensor]:
    """Return the outputs of `call`."""
    found: Sequence[Tensor] = _sums(call, tuple(tensors), tuple(masks))
    return found


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _sums(call: Call, tensors: tuple[Tensor, ...], masks: tuple[Tensor, ...]) -> list[Tensor]:
    return _passes.bind(*tensors, *masks, call=call, backward=False)


def _forward(call: Call, tensors: tuple[Tensor, ...], masks: tuple[Tensor, ...]) -> Any:
    return _sums(call, tensors, masks), (tensors, masks)


def _backward(call: Call, kept: Any, upstreams: list[Tensor]) -> tuple[Any, None]:
    tensors, masks = kept
    found = _passes.bind(*upstreams, *tensors, *masks, call=call, backward=True)
    return tuple(found), None


_sums.defvjp(_forward, _backward)

# (*upstreams, *tensors, *masks) → gradients of the tensors; without `backward`,
# (*tensors, *masks) → outputs.
_passes = Primitive("coda_passes")
_passes.multiple_results = True


def _split(operands: Sequence[Any], call: Call) -> tuple[Sequence[Any], ...]:
    """Return upstreams, tensors and masks."""
    masks = len(operands) - len(call.masks)
    tensors = masks - len(call.names)
    return operands[:tensors], operands[tensors:masks], operands[masks:]


@_passes.def_abstract_eval
def _shapes(*operands: Any, call: Call, backward: bool) -> list[Any]:
    tensors = _split(operands, call)[1]
    if backward:
        return [x.update(weak_type=False) for x in tensors]
    # Updated, an array varies over the same axes of a mesh as before.
    shapes = call.output_shapes([x.shape for x in tensors])
    return [tensors[0].update(shape=shape, weak_type=False) for shape in shapes]


@functools.cache
def _program(call: Call, backward: bool) -> Callable[..., list[Tensor]]:
    return jax.jit(functools.partial(_passes.bind, call=call, backward=backward))


@_passes.def_impl
def _run(*operands: Tensor, call: Call, backward: bool) -> list[Tensor]:
    with jax.disable_jit(False):  # as for any other primitive
        found: list[Tensor] = _program(call, backward)(*operands)
    return found


def _lower(context: Any, *operands: Any, call: Call, backward: bool) -> Any:
    module = context.module_context
    stays = not module.lowering_parameters.for_export and tuple(module.platforms) == ("cpu",)
    if not stays and not call.may_be_tensors:
        raise ValueError(
            "`implementation='compiled'` cannot be exported or lowered for another platform than "
            f"this process' CPUs. Received: platforms {tuple(module.platforms)}. "
            "Use 'auto' or 'blockwise'."
        )
    function = _as_foreign_function if stays else _as_tensors
    lowered = mlir.lower_fun(functools.partial(function, call, backward), multiple_results=True)
    return lowered(context, *operands)


mlir.register_lowering(_passes, _lower)


def _as_foreign_function(call: Call, backward: bool, *operands: Tensor) -> list[Tensor]:
    results = _shapes(*map(jax.typeof, operands), call=call, backward=backward)
    run = jax.ffi.ffi_call(_TARGET, [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in results])
    return list(run(*operands, call=xla_call.written(call, backward)))


def _as_tensors(call: Call, backward: bool, *operands: Tensor) -> list[Tensor]:
    upstreams, tensors, masks = _split(operands, call)

    def forward(*tensors: Tensor) -> tuple[Tensor, ...]:
        named = dict(zip(call.names, tensors, strict=True))
        if call.settings.compares_same:
            named |= {f"distance_{name}": named[name] for name in ("query", "key")}
        return tiled_sums(_tiled(call, named, dict(zip(call.masks, masks, strict=True))), named)

    if not backward:
        return list(forward(*tensors))
    return list(jax.vjp(forward, *tensors)[1](tuple(upstreams)))


def _tiled(call: Call, tensors: dict[str, Tensor], masks: dict[str, Tensor]) -> TiledWeights:
    settings, (batch, target, _) = call.settings, tensors["beta"].shape
    source = tensors["value"].shape[1]
    keys, full = masks.get("key_mask"), masks.get("full_mask")
    tile_masks = TileMasks(
        (batch,),
        target,
        source,
        keys_per_tile(target, source),
        None if keys is None else jnp.broadcast_to(keys[..., :source], (batch, 1, source)),
        masks.get("row_mask"),
        None if full is None else full[masks["full_index"], :, :source],
        settings.is_causal,
    )
    rule = WeightRule(settings.similarity, settings.gate, settings.scale)
    return TiledWeights(rule, tile_masks, settings.dropout, masks.get("dropout_keys"))


def _derivative(primals: Any, tangents: Any, *, call: Call, backward: bool) -> Any:
    """Differentiate the computation with tensors, for derivatives of gradients."""
    function = functools.partial(_as_tensors, call, backward)
    return jax.jvp(function, tuple(primals), tuple(map(ad.instantiate_zeros, tangents)))


ad.primitive_jvps[_passes] = _derivative


def _batch(operands: Sequence[Tensor], axes: Sequence[Any], *, call: Call, backward: bool) -> Any:
    """Merge the new axis of all operands with their first."""
    count = next(x.shape[a] for x, a in zip(operands, axes, strict=True) if a is not None)
    lead = [
        x[None] if axis is None else jnp.moveaxis(x, axis, 0)
        for x, axis in zip(operands, axes, strict=True)
    ]
    upstreams, tensors, masks = (list(part) for part in _split(lead, call))
    batch = dict(zip(call.names, tensors, strict=True))["beta"].shape[1]

    def merged(x: Tensor) -> Tensor:
        return jnp.broadcast_to(x, (count, batch, *x.shape[2:])).reshape(
            (count * batch, *x.shape[2:])
        )

    named = dict(zip(call.masks, masks, strict=True))
    if "full_mask" in named:  # (1 or count, masks, T, S): the first axis is found by index
        groups, size = named["full_mask"].shape[:2]
        named["full_index"] += size * jnp.arange(groups, dtype="int32")[:, None]
    new = {
        name: x.reshape((-1, *x.shape[2:])) if name == "full_mask" else merged(x)
        for name, x in named.items()
    }
    results = _passes.bind(
        *map(merged, (*upstreams, *tensors)), *new.values(), call=call, backward=backward
    )
    return [x.reshape((count, batch, *x.shape[1:])) for x in results], [0] * len(results)


batching.primitive_batchers[_passes] = _batch
