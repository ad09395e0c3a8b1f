"""CoDA without a (T, S) matrix: the `blockwise` implementation of `coda_attention` and `coda_pair`."""

from collections.abc import Callable
from typing import Any

from keras import ops

from keras_quasiattn.ops.coda_tiles import TiledWeights, tiled_sums
from keras_quasiattn.ops.composition import Composition
from keras_quasiattn.ops.composition_gradient import WeightRule
from keras_quasiattn.ops.dropout import dropout_keys
from keras_quasiattn.ops.loop import loop
from keras_quasiattn.ops.pair_means import mean_dot_product
from keras_quasiattn.ops.precision import as_dtype, compute_dtype
from keras_quasiattn.ops.tile_masks import TileMasks, broadcast_leading, flatten_leading, leading_size
from keras_quasiattn.ops.tiles import keys_a_tile

Tensor = Any


def blockwise_sums(
    similarity_pair: tuple[Tensor, Tensor],
    distance_pair: tuple[Tensor, Tensor],
    value: Tensor,
    *,
    alpha: float | Tensor,
    beta: float | Tensor,
    composition: Composition,
    mask: Tensor | None = None,
    row_mask: Tensor | None = None,
    key_mask: Tensor | None = None,
    is_causal: bool = False,
    mean_per_query: bool = False,
    dropout: float = 0.0,
    dropout_seed: Tensor | None = None,
    other_value: Tensor | None = None,
    compiled: bool = False,
) -> tuple[Tensor, ...]:
    """M · value, and Mᵀ · other_value where that is given; memory is linear in T and S.

    A factor `alpha` or `beta` that varies along S is the exception: it is widened to (..., T, S).

    Args:
        similarity_pair: F_E(A) (..., T, D) and F_E(B) (..., S, D).
        distance_pair: F_N(A) (..., T, F) and F_N(B) (..., S, F).
        value: (..., S, V).
        alpha: factor of E, broadcasts to (..., T, S).
        beta: the same for the distance.
        composition: which functions, and what is centred.
        mask: boolean, broadcasts to (..., T, S).
        row_mask: boolean (..., T).
        key_mask: boolean (..., S).
        is_causal: query i attends to keys 0 … i only.
        mean_per_query: means run over the keys of each query, not over all pairs.
        dropout: share of the weights to drop.
        dropout_seed: two integers, needed for dropout.
        other_value: (..., T, W).
        compiled: go through compiled CPU loops instead of tiles of tensors.

    Returns:
        (..., T, V) and, with `other_value`, (..., S, W), in the precision of the weights.
    """
    query, key = similarity_pair
    dtype = compute_dtype(query, key, *distance_pair)
    target, source = ops.shape(query)[-2], ops.shape(key)[-2]
    alpha, beta = (_at_least_matrix(as_dtype(factor, dtype)) for factor in (alpha, beta))
    masks = [None if mask is None else _at_least_matrix(mask), None, None]
    if row_mask is not None:
        masks[1] = ops.expand_dims(row_mask, -1)
    if key_mask is not None:
        masks[2] = ops.expand_dims(key_mask, -2)
    parts = [query, key, *distance_pair, value, other_value, alpha, beta, *masks]
    lead = broadcast_leading([part for part in parts if part is not None])

    def flat(x: Tensor, rows: Any, columns: Any) -> Tensor:
        return flatten_leading(ops.cast(x, dtype), lead, rows, columns)

    tensors = {}
    if alpha.shape[-1] != 1:
        tensors["alpha_full"] = flat(alpha, target, source)
    elif compiled:
        tensors["alpha"] = flat(alpha, target, 1)
    else:
        query = ops.cast(query, dtype) * alpha
    tensors["query"] = flat(query, target, query.shape[-1])
    tensors["key"] = flat(key, source, key.shape[-1])
    for name, x, length in zip(
        ("distance_query", "distance_key"), distance_pair, (target, source), strict=True
    ):
        tensors[name] = flat(x, length, x.shape[-1])
    tensors["value"] = flat(value, source, value.shape[-1])
    if beta.shape[-1] == 1:
        tensors["beta"] = flat(beta, target, 1)
    else:
        tensors["beta_full"] = flat(beta, target, source)
    if other_value is not None:
        tensors["other_value"] = flat(other_value, target, other_value.shape[-1])
    tile_masks = _masks(masks, lead, target, source, is_causal)
    sums = tiled_sums
    if compiled:
        from keras_quasiattn.ops.coda_compiled_tensorflow import compiled_sums as sums
    if composition.uses_means:
        tensors.update(_offsets(sums, tensors, tile_masks, composition, mean_per_query))
    keys = dropout_keys(dropout_seed, leading_size(lead)) if dropout else None

    weights = TiledWeights(WeightRule.of(composition), tile_masks, dropout, keys)
    outputs = sums(weights, tensors)
    return tuple(ops.reshape(output, (*lead, *ops.shape(output)[1:])) for output in outputs)


def _at_least_matrix(x: Tensor) -> Tensor:
    return ops.reshape(x, (1,) * (2 - len(x.shape)) + tuple(ops.shape(x))) if len(x.shape) < 2 else x


def _masks(
    masks: list[Tensor | None], lead: tuple[Any, ...], target: Any, source: Any, is_causal: bool
) -> TileMasks:
    """A mask that says the same for all queries, or for all keys, is kept as one row or one column."""
    mask, row_mask, key_mask = masks
    full = None
    if mask is not None:
        if mask.shape[-2] == 1:
            key_mask = mask
        elif mask.shape[-1] == 1:
            row_mask = mask
        else:
            full = ops.reshape(mask, (1,) * (len(lead) + 2 - len(mask.shape)) + tuple(ops.shape(mask)))
            full = ops.broadcast_to(full, (*ops.shape(full)[:-2], target, source))
    return TileMasks(
        lead,
        target,
        source,
        keys_a_tile(target, source),
        None if key_mask is None else flatten_leading(key_mask, lead, 1, source),
        None if row_mask is None else flatten_leading(row_mask, lead, target, 1),
        full,
        is_causal,
    )


def _offsets(
    sums: Callable[..., tuple[Tensor, ...]],
    tensors: dict[str, Tensor],
    masks: TileMasks,
    composition: Composition,
    per_query: bool,
) -> dict[str, Tensor]:
    """The means of E and N that are subtracted, (B, T, 1) each, from first passes over the tiles."""
    batch, dtype = ops.shape(tensors["value"])[0], tensors["value"].dtype
    ones = ops.ones((batch, masks.source, 1), dtype=dtype)
    separable = masks.full_mask is None and not masks.is_causal

    def total(names: tuple[str, ...], rule: WeightRule) -> Tensor:
        needed = {name: tensors[name] for name in names if name in tensors}
        return sums(TiledWeights(rule, masks), {**needed, "value": ones})[0]

    count = _visible_keys(masks, batch, dtype)

    def mean(sums: Tensor) -> Tensor:
        if per_query:
            return sums / ops.maximum(count, ops.cast(1, dtype))
        whole = ops.maximum(ops.sum(count, axis=1, keepdims=True), ops.cast(1, dtype))
        return ops.broadcast_to(ops.sum(sums, axis=1, keepdims=True) / whole, ops.shape(sums))

    offsets = {}
    if composition.center_similarity:
        if separable and not per_query and "alpha_full" not in tensors:
            # In closed form: a product of sums.
            row_mask = None if masks.row_mask is None else masks.row_mask[..., 0]
            query = tensors["query"] * tensors["alpha"] if "alpha" in tensors else tensors["query"]
            closed = mean_dot_product(query, tensors["key"], row_mask, masks.real_keys[:, : masks.source, 0])
            offsets["similarity_offset"] = ops.broadcast_to(closed, (batch, masks.target, 1))
        else:
            offsets["similarity_offset"] = mean(
                total(
                    ("query", "key", "alpha", "alpha_full", "beta", "beta_full"), WeightRule("identity", None)
                )
            )
    if composition.center_gate:
        names = ("distance_query", "distance_key", "beta", "beta_full")
        offsets["distance_offset"] = mean(total(names, WeightRule(None, "identity")))
    return offsets


def _visible_keys(masks: TileMasks, batch: Any, dtype: str) -> Tensor:
    """How many keys each query attends to, (B, T, 1)."""
    start = ops.zeros((batch, masks.target, 1), dtype=dtype)

    def add(index: Any, total: Tensor) -> Tensor:
        mask = masks.tile(index)
        if mask is None:
            return total + masks.size
        return total + ops.sum(ops.cast(mask, dtype), axis=2, keepdims=True)

    return loop(0, masks.count, add, start)
