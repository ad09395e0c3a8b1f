"""A call of CoDA's compiled passes.

It imports no compiler: GPUs need Triton, and CPUs Numba.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

from keras import ops

from keras_quasiattn.attention.coda.composition import WeightRule
from keras_quasiattn.attention.coda.tiles import TiledWeights, TileMasks, tiled_sums
from keras_quasiattn.core.compiled.arrays import Arrays
from keras_quasiattn.core.compiled.call import Call, Shape, named
from keras_quasiattn.core.compiled.threads import Spread

Tensor = Any


@dataclasses.dataclass(frozen=True)
class CodaCall(Call):
    """A call of `Passes`.

    `similarity` and `gate` are names in `FUNCTION_CODES`, or None if M does not depend on E or N.
    With `compares_same`, N compares the same arrays as E, "query" and "key".
    """

    names: tuple[str, ...]
    similarity: str | None
    gate: str | None
    scale: int
    is_causal: bool
    dropout: float
    compares_same: bool = False
    masks: tuple[str, ...] = ()
    may_be_tensors: bool = False

    way_out = "use 'auto' or 'blockwise'"

    def output_shapes(self, shapes: Sequence[Shape]) -> list[tuple[Any, ...]]:
        """Return (B, T, V) and, if there is another value, (B, S, W)."""
        of = dict(zip(self.names, shapes, strict=False))
        found = [(*of["beta"][:2], of["value"][2])]
        if "other_value" in of:
            found.append((*of["value"][:2], of["other_value"][2]))
        return found

    def forward(self, arrays: Arrays, out: Arrays, spread: Spread) -> None:
        """Write M · value and, if there is another value, Mᵀ · other_value to `out`."""
        self._passes(arrays, spread).forward(out)

    def backward(self, upstreams: Arrays, arrays: Arrays, out: Arrays, spread: Spread) -> None:
        """Write a gradient for each of `names` to `out`."""
        self._passes(arrays, spread).backward(upstreams, out)

    def _passes(self, arrays: Arrays, spread: Spread) -> Any:
        from keras_quasiattn.attention.coda.compiled.passes import Passes

        return Passes(self, named(self, arrays), spread)

    def run_on_gpu(
        self, tensors: Sequence[Tensor], upstreams: Sequence[Tensor] = ()
    ) -> list[Tensor]:
        """Return the results of `run` as PyTorch tensors."""
        from keras_quasiattn.attention.coda.compiled import torch_gpu

        given = named(self, tensors)
        if not upstreams:
            return torch_gpu.forward(self, given)
        found = torch_gpu.backward(self, upstreams, given)
        return [found[name] for name in self.names]

    def with_tensors(self, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
        """Compute the outputs with tiles of tensors."""
        given = named(self, tensors)
        if self.compares_same:
            given |= {f"distance_{name}": given[name] for name in ("query", "key")}
        batch, target, _ = ops.shape(given["beta"])
        source = ops.shape(given["value"])[1]
        keys, full = given.get("key_mask"), given.get("full_mask")
        masks = TileMasks(
            (batch,),
            target,
            source,
            None if keys is None else ops.broadcast_to(keys[..., :source], (batch, 1, source)),
            given.get("row_mask"),
            None if full is None else ops.take(full, given["full_index"], axis=0)[..., :source],
            self.is_causal,
        )
        rule = WeightRule(self.similarity, self.gate, self.scale)
        weights = TiledWeights(rule, masks, self.dropout, given.get("dropout_keys"))
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
    call = CodaCall(
        names,
        **dataclasses.asdict(weights.rule),
        is_causal=bool(given.is_causal),  # NumPy's numbers could not be read as text
        dropout=float(weights.dropout),
        compares_same=same,
        masks=tuple(masks),
        may_be_tensors=may_be_tensors,
    )
    return run(call, [tensors[name] for name in names], list(masks.values()))
