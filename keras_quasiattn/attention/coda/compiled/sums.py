"""`tiled_sums` in compiled code."""

from typing import Any

from keras import ops

from keras_quasiattn.attention.coda.compiled.call import CodaCall, Settings
from keras_quasiattn.attention.coda.tiles import TiledWeights
from keras_quasiattn.core.compiled.run import run
from keras_quasiattn.core.tiling import leading_size

Tensor = Any


def compiled_sums(
    weights: TiledWeights, tensors: dict[str, Tensor], *, may_be_tensors: bool
) -> tuple[Tensor, ...]:
    """Like `coda.tiles.tiled_sums`, with "alpha" and "beta" (B, T, 1)."""
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
        # One mask may serve several batches or heads. It is passed once, (masks, T, S), with the
        # index of its mask for each of B.
        lead = ops.shape(masks.full_mask)[:-2]
        count = leading_size(lead)
        numbers = ops.reshape(ops.arange(count, dtype="int32"), lead)
        found["full_index"] = ops.reshape(ops.broadcast_to(numbers, masks.lead), (-1,))
        found["full_mask"] = ops.reshape(
            masks.full_mask, (count, masks.target, masks.padded_source)
        )
    return found
