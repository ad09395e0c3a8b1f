"""`tiled_sums` in compiled code."""

from typing import Any

from keras_quasiattn.attention.coda.compiled.call import CodaCall, Settings
from keras_quasiattn.attention.coda.tiles import TiledWeights
from keras_quasiattn.core.compiled.run import run, shared_mask

Tensor = Any


def compiled_sums(
    weights: TiledWeights, tensors: dict[str, Tensor], *, may_be_tensors: bool
) -> tuple[Tensor, ...]:
    """Compute `coda.tiles.tiled_sums` in compiled code; "alpha" and "beta" are (B, T, 1)."""
    same = "query" in tensors and all(
        tensors[name] is tensors.get(f"distance_{name}") for name in ("query", "key")
    )
    twice = ("distance_query", "distance_key") if same else ()
    names = tuple(name for name in tensors if name not in twice)
    masks = {name: mask for name, mask in _masks(weights).items() if mask is not None}
    rule = weights.rule
    settings = Settings(
        rule.similarity, rule.gate, rule.scale, weights.masks.is_causal, weights.dropout, same
    )
    call = CodaCall(tuple(settings), names, tuple(masks), may_be_tensors)
    return run(call, [tensors[name] for name in names], list(masks.values()))


def _masks(weights: TiledWeights) -> dict[str, Tensor | None]:
    masks = weights.masks
    found = {
        "key_mask": masks.key_mask,
        "row_mask": masks.row_mask,
        "dropout_keys": weights.dropout_keys,
    }
    if masks.full_mask is not None:
        found |= shared_mask(masks.full_mask, masks.lead)
    return found
