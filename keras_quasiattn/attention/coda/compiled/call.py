"""A call of CoDA's compiled passes.

It imports no compiler: GPUs need Triton, and CPUs Numba.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from keras import ops

from keras_quasiattn.attention.coda.composition import WeightRule
from keras_quasiattn.attention.coda.tiles import TiledWeights, TileMasks, tiled_sums
from keras_quasiattn.core.compiled.arrays import Arrays
from keras_quasiattn.core.compiled.call import Call, Shape, named
from keras_quasiattn.core.compiled.threads import Spread, over_cores
from keras_quasiattn.core.tiling import keys_per_tile

if TYPE_CHECKING:
    from keras_quasiattn.attention.coda.compiled.passes import Passes

Tensor = Any


class Settings(NamedTuple):
    """The options of a layer, the same in every call.

    `similarity` and `gate` are names in `FUNCTION_CODES`, or None if M does not depend on E or N.
    With `compares_same`, N compares the same arrays as E, "query" and "key".
    """

    similarity: str | None
    gate: str | None
    scale: int
    is_causal: bool
    dropout: float
    compares_same: bool = False


@dataclasses.dataclass(frozen=True)
class CodaCall(Call):
    """A call of `Passes`; `settings` are the fields of `Settings`."""

    settings: tuple[Any, ...]
    names: tuple[str, ...]
    masks: tuple[str, ...]
    may_be_tensors: bool

    way_out = "use 'auto' or 'blockwise'"

    def output_shapes(self, shapes: Sequence[Shape]) -> list[tuple[Any, ...]]:
        """Return (B, T, V) and, if there is another value, (B, S, W)."""
        of = dict(zip(self.names, shapes, strict=False))
        found = [(*of["beta"][:2], of["value"][2])]
        if "other_value" in of:
            found.append((*of["value"][:2], of["other_value"][2]))
        return found

    def forward(
        self, arrays: Arrays, out: Arrays | None = None, spread: Spread = over_cores
    ) -> Arrays:
        """Return M · value and, if there is another value, Mᵀ · other_value."""
        return self._passes(arrays, spread).forward(out)

    def backward(
        self,
        upstreams: Arrays,
        arrays: Arrays,
        out: Arrays | None = None,
        spread: Spread = over_cores,
    ) -> Arrays:
        """Return a gradient for each of `names`."""
        return self._passes(arrays, spread).backward(upstreams, self.names, out)

    def _passes(self, arrays: Arrays, spread: Spread) -> Passes:
        from keras_quasiattn.attention.coda.compiled.passes import Passes

        return Passes(Settings(*self.settings), named(self, arrays), spread)

    def forward_on_gpu(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Return the outputs as PyTorch tensors."""
        from keras_quasiattn.attention.coda.compiled import torch_gpu

        return torch_gpu.forward(Settings(*self.settings), named(self, tensors))

    def backward_on_gpu(
        self, upstreams: Sequence[Tensor], tensors: Sequence[Tensor]
    ) -> list[Tensor]:
        """Return the gradients as PyTorch tensors."""
        from keras_quasiattn.attention.coda.compiled import torch_gpu

        found = torch_gpu.backward(Settings(*self.settings), upstreams, named(self, tensors))
        return [found[name] for name in self.names]

    def with_tensors(self, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
        """Compute the outputs with tiles of tensors."""
        given, settings = named(self, tensors), Settings(*self.settings)
        if settings.compares_same:
            given |= {f"distance_{name}": given[name] for name in ("query", "key")}
        batch, target, _ = given["beta"].shape
        source = given["value"].shape[1]
        keys, full = given.get("key_mask"), given.get("full_mask")
        masks = TileMasks(
            (batch,),
            target,
            source,
            keys_per_tile(target, source),
            None if keys is None else ops.broadcast_to(keys[..., :source], (batch, 1, source)),
            given.get("row_mask"),
            None if full is None else ops.take(full, given["full_index"], axis=0)[..., :source],
            settings.is_causal,
        )
        rule = WeightRule(settings.similarity, settings.gate, settings.scale)
        weights = TiledWeights(rule, masks, settings.dropout, given.get("dropout_keys"))
        return tiled_sums(weights, {name: x for name, x in given.items() if name not in self.masks})


def compiled_sums(
    weights: TiledWeights, tensors: dict[str, Tensor], *, may_be_tensors: bool
) -> tuple[Tensor, ...]:
    """Compute `tiled_sums` in compiled code; "alpha" and "beta" are (B, T, 1)."""
    from keras_quasiattn.core.compiled.run import run, shared_mask

    same = "query" in tensors and all(
        tensors[name] is tensors.get(f"distance_{name}") for name in ("query", "key")
    )
    twice = ("distance_query", "distance_key") if same else ()
    names = tuple(name for name in tensors if name not in twice)
    given = weights.masks
    masks = {
        "key_mask": given.key_mask,
        "row_mask": given.row_mask,
        "dropout_keys": weights.dropout_keys,
    }
    if given.full_mask is not None:
        masks |= shared_mask(given.full_mask, given.lead)
    masks = {name: mask for name, mask in masks.items() if mask is not None}
    rule = weights.rule
    # NumPy's numbers could not be read as text.
    is_causal, dropout = bool(given.is_causal), float(weights.dropout)
    settings = Settings(rule.similarity, rule.gate, rule.scale, is_causal, dropout, same)
    call = CodaCall(tuple(settings), names, tuple(masks), may_be_tensors)
    return run(call, [tensors[name] for name in names], list(masks.values()))
