"""CoDA without a (T, S) matrix: the "blockwise" and "compiled" implementations."""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

from keras import ops

from keras_quasiattn.attention.coda.compiled.call import compiled_sums
from keras_quasiattn.attention.coda.composition import Composition, Pairs, WeightRule
from keras_quasiattn.attention.coda.tiles import TiledWeights, TileMasks, tiled_sums
from keras_quasiattn.core.backend import loop
from keras_quasiattn.core.masks import Mask, combine_masks, zero_padding
from keras_quasiattn.core.randomness import dropout_keys
from keras_quasiattn.core.tensors import as_dtype, compute_dtype, with_rank
from keras_quasiattn.core.tiling import broadcast_leading, flatten_leading

Tensor = Any


def blockwise_sums(
    pairs: Pairs,
    value: Tensor,
    other_value: Tensor | None = None,
    *,
    compiled: bool = False,
    may_be_tensors: bool = False,
) -> tuple[Tensor, ...]:
    """Return M · value, and Mᵀ · other_value if it is given, in memory linear in T and S.

    A factor `alpha` or `beta` that varies along S is broadcast to (..., T, S) all the same.
    `compiled` uses compiled loops instead of tiles of tensors; if `may_be_tensors`, a program that
    cannot hold loops still uses the tiles.
    """
    dtype = compute_dtype(pairs.query, pairs.key, pairs.distance_query, pairs.distance_key)
    target, source = ops.shape(pairs.query)[-2], ops.shape(pairs.key)[-2]
    alpha, beta = (with_rank(as_dtype(x, dtype), 2) for x in (pairs.alpha, pairs.beta))
    mask = None if pairs.mask is None else with_rank(pairs.mask, 2)
    # (..., T, 1) and (..., 1, S).
    row_mask = None if pairs.row_mask is None else ops.expand_dims(pairs.row_mask, -1)
    key_mask = None if pairs.key_mask is None else ops.expand_dims(pairs.key_mask, -2)
    query, of_alpha = pairs.query, {"alpha": (alpha, target)}
    # E = (α·query) · keyᵀ where α is the same for all keys. The compiled loops apply α themselves.
    if alpha.shape[-1] == 1 and not compiled:
        query, of_alpha = ops.cast(query, dtype) * alpha, {}
    # Each tensor with its length: the rows of its last two axes.
    parts = {
        **of_alpha,
        "query": (query, target),
        "key": (pairs.key, source),
        "distance_query": (pairs.distance_query, target),
        "distance_key": (pairs.distance_key, source),
        "value": (value, source),
        "beta": (beta, target),
        **({} if other_value is None else {"other_value": (other_value, target)}),
    }
    given = [*(part for part, _ in parts.values()), *([] if pairs.bias is None else [pairs.bias])]
    given += [one for one in (mask, row_mask, key_mask) if one is not None]
    lead = broadcast_leading(given)
    # (B, length, columns), with every leading axis merged into B.
    tensors: dict[str, Tensor] = {}
    for name, (part, length) in parts.items():
        of_similarity = name.removeprefix("distance_")
        if part is parts[of_similarity][0] and of_similarity in tensors:
            tensors[name] = tensors[of_similarity]  # the compiled loops read it once
            continue
        columns = source if name in ("alpha", "beta") and part.shape[-1] != 1 else part.shape[-1]
        tensors[name] = flatten_leading(ops.cast(part, dtype), lead, length, columns)

    bias_lead: tuple[Any, ...] = ()
    if pairs.bias is not None:
        tensors["bias"], bias_lead = _tiled_bias(ops.cast(pairs.bias, dtype), lead, target, source)
    masks = _masks(mask, row_mask, key_mask, lead, target, source, pairs.is_causal)
    sums: Callable[..., tuple[Tensor, ...]] = tiled_sums
    if compiled:
        sums = functools.partial(compiled_sums, may_be_tensors=may_be_tensors)
    keys = dropout_keys(pairs.dropout_seed, math.prod(lead)) if pairs.dropout else None
    rule = WeightRule.of(pairs.composition)
    weights = TiledWeights(rule, masks, pairs.dropout, keys, bias_lead)
    if pairs.composition.uses_means:
        tensors |= _offsets(sums, tensors, weights, pairs.composition, pairs.mean_per_query)
    outputs = sums(weights, tensors)
    return tuple(
        ops.cast(ops.reshape(output, (*lead, *ops.shape(output)[1:])), of.dtype)
        for output, of in zip(outputs, (value, other_value), strict=False)
    )


def _tiled_bias(
    bias: Tensor, lead: tuple[Any, ...], target: Any, source: Any
) -> tuple[Tensor, tuple[Any, ...]]:
    """Return the bias as (L, T or 1, S or 1), and the leading lengths, kept at 1, that make L."""
    bias = with_rank(bias, len(lead) + 2)
    pairs = zip(bias.shape, (*lead, target, source), strict=True)
    shape = tuple(1 if own == 1 else length for own, length in pairs)
    if not all(isinstance(length, int) for length in shape) or tuple(bias.shape) != shape:
        bias = ops.broadcast_to(bias, shape)  # an unknown length may turn out to be 1
    return ops.reshape(bias, (math.prod(shape[:-2]), *shape[-2:])), shape[:-2]


def _masks(
    mask: Mask,
    row_mask: Mask,
    key_mask: Mask,
    lead: tuple[Any, ...],
    target: Any,
    source: Any,
    is_causal: bool,
) -> TileMasks:
    """Return the `TileMasks`; a mask shared by all queries or keys stays one row or column."""
    full = None
    if mask is not None:
        if mask.shape[-2] == 1:
            key_mask = combine_masks(key_mask, mask)
        elif mask.shape[-1] == 1:
            row_mask = combine_masks(row_mask, mask)
        else:
            full = with_rank(mask, len(lead) + 2)
            full = ops.broadcast_to(full, (*ops.shape(full)[:-2], target, source))
    return TileMasks(
        lead,
        target,
        source,
        None if key_mask is None else flatten_leading(key_mask, lead, 1, source),
        None if row_mask is None else flatten_leading(row_mask, lead, target, 1),
        full,
        is_causal,
    )


def _offsets(
    sums: Callable[..., tuple[Tensor, ...]],
    tensors: dict[str, Tensor],
    weights: TiledWeights,
    composition: Composition,
    per_query: bool,
) -> dict[str, Tensor]:
    """Return the means of E and N to subtract, (B, T, 1) each, from extra passes over the tiles."""
    masks = weights.masks
    batch, dtype = ops.shape(tensors["value"])[0], tensors["value"].dtype
    ones = ops.ones((batch, masks.source, 1), dtype=dtype)
    count = _visible_keys(masks, batch, dtype)

    def mean(rule: WeightRule, *names: str) -> Tensor:
        needed = {name: tensors[name] for name in (*names, "beta") if name in tensors}
        alone = dataclasses.replace(weights, rule=rule, dropout=0.0, dropout_keys=None)
        total = sums(alone, {**needed, "value": ones})[0]  # (B, T, 1)
        if per_query:
            return total / ops.maximum(count, ops.cast(1, dtype))
        # Over all pairs: (B, 1, 1), broadcast to (B, T, 1).
        whole = ops.maximum(ops.sum(count, axis=1, keepdims=True), ops.cast(1, dtype))
        return ops.broadcast_to(ops.sum(total, axis=1, keepdims=True) / whole, ops.shape(total))

    offsets = {}
    if composition.center_similarity:
        separable = masks.full_mask is None and not masks.is_causal and not per_query
        separable = separable and "bias" not in tensors
        if separable and ("alpha" not in tensors or tensors["alpha"].shape[-1] == 1):
            # Without a pass: the mean of q[t]·k[s] is (mean of q)·(mean of k), (B, 1, D) each.
            query = tensors["query"] * tensors["alpha"] if "alpha" in tensors else tensors["query"]
            row_mask = None if masks.row_mask is None else masks.row_mask[..., 0]
            key_mask = masks.real_keys[:, : masks.source, 0]
            product = _mean_position(query, row_mask) * _mean_position(tensors["key"], key_mask)
            closed = ops.sum(product, axis=-1, keepdims=True)
            offsets["similarity_offset"] = ops.broadcast_to(closed, (batch, masks.target, 1))
        else:
            rule = WeightRule("identity", None)
            offsets["similarity_offset"] = mean(rule, "query", "key", "alpha", "bias")
    if composition.center_gate:
        rule = WeightRule(None, "identity")
        offsets["distance_offset"] = mean(rule, "distance_query", "distance_key")
    return offsets


def _mean_position(x: Tensor, mask: Mask) -> Tensor:
    """Return the mean over the real positions of x (B, L, D) as (B, 1, D); 0 if there are none."""
    real = ops.ones_like(x[..., :1])
    if mask is not None:
        real = ops.cast(ops.expand_dims(mask, -1), x.dtype)
    count = ops.maximum(ops.sum(real, axis=-2, keepdims=True), ops.cast(1, x.dtype))
    return ops.sum(zero_padding(x, mask) * (real / count), axis=-2, keepdims=True)


def _visible_keys(masks: TileMasks, batch: Any, dtype: str) -> Tensor:
    """Return how many keys each query attends to, (B, T, 1)."""
    start = ops.zeros((batch, masks.target, 1), dtype=dtype)

    def add(index: Any, total: Tensor) -> Tensor:
        mask = masks.tile(index)
        if mask is None:
            return total + masks.size
        return total + ops.sum(ops.cast(mask, dtype), axis=2, keepdims=True)

    return loop(0, masks.count, add, start)
