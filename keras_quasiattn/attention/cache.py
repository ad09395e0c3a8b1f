"""Incremental attention, one query at a time, with a cache of earlier positions.

The cache holds the projected keys and values of `keras.layers.MultiHeadAttention` and of this
package's layers. Any other layer, and options that need the position of a query (`sliding_window`)
or another projection (`use_gate`), are called on all positions so far, which costs more.
"""

from typing import Any

import keras
from keras import ops

from keras_quasiattn.attention.multi_head import MultiHeadQuasiAttention, projected
from keras_quasiattn.core.masks import combine_masks, pair_mask, zero_masked

Tensor = Any
_PROJECTING = (keras.layers.MultiHeadAttention.call, MultiHeadQuasiAttention.call)


def start_attention_cache(
    attention: keras.layers.Layer, queries: Tensor, values: Tensor | None = None
) -> dict[str, Tensor]:
    """Return an empty cache for self-attention, or one filled with `values` for cross-attention.

    Args:
        attention: a built layer with the call arguments of `keras.layers.MultiHeadAttention`.
        queries: (B, L, D), with one position for each future query; only its shape matters.
        values: None for self-attention; else (B, S, E), what every query attends to.
            Defaults to None.
    """
    if _has_plain_projections(attention):
        return _projected(attention, queries if values is None else values)
    return {"query": queries} if values is None else {"query": queries, "value": values}


def attend_from_cache(
    attention: keras.layers.Layer,
    query: Tensor,
    index: Any,
    cache: dict[str, Tensor],
    mask: Tensor | None = None,
    *,
    is_causal: bool = False,
) -> tuple[Tensor, dict[str, Tensor]]:
    """Return the output of `attention` for the query at position `index`, without dropout.

    The query is (B, 1, D), and the mask boolean (B, L), or (B, S) in cross-attention. `is_causal`
    means self-attention, in which the query joins the keys. Return (B, 1, D) and the next cache.
    """
    if _has_plain_projections(attention):
        if is_causal:
            new = _projected(attention, query, index)
            cache = {name: _write(cache[name], new[name], index) for name in new}
            mask = combine_masks(_seen(cache["key"], index), mask)  # (1 or B, L)
        is_ours = isinstance(attention, MultiHeadQuasiAttention)
        if is_ours:
            heads = attention.project_query(query, index)
        else:
            heads = projected(attention.query_dense, query)
        output, _ = attention._compute_attention(
            heads, cache["key"], cache["value"], pair_mask(None, mask), training=False
        )
        output = projected(attention.output_dense, output)
        if is_ours and mask is None and not cache["key"].shape[1]:  # no keys, or an unknown number
            mask = ops.ones(ops.shape(cache["key"])[:2], dtype="bool")
        if mask is not None and is_ours:
            # Otherwise rows that attended to nothing would hold the bias of the projection.
            output = zero_masked(output, ops.any(mask, axis=-1)[:, None, None])
        return output, cache
    queries = _write(cache["query"], query, index)
    cache = {**cache, "query": queries}
    seen = ops.broadcast_to(_seen(queries, index), ops.shape(queries)[:2])  # (B, L)
    output = attention(
        queries,
        queries if is_causal else cache["value"],
        query_mask=seen,
        value_mask=combine_masks(seen, mask) if is_causal else mask,
        use_causal_mask=is_causal,
        training=False,
    )
    return ops.take(output, ops.reshape(index, (1,)), axis=1), cache


def read_into_cache(
    attention: keras.layers.Layer,
    queries: Tensor,
    cache: dict[str, Tensor],
    mask: Tensor | None = None,
    *,
    is_causal: bool = False,
) -> tuple[Tensor, dict[str, Tensor]]:
    """Process positions 0 … P − 1 in one call, as `attend_from_cache` would one by one.

    The cache that is returned serves a step at position P or any earlier one, because later entries
    are overwritten before they are visible. Queries (B, P, D) beyond its length are not stored.
    """
    is_plain = _has_plain_projections(attention)
    if is_plain and not is_causal:
        # Only rotations depend on the position of a query, and they need only that of the first.
        return attend_from_cache(attention, queries, 0, cache, mask)
    options = {"use_causal_mask": True, "query_mask": mask} if is_causal else {}
    values = queries if is_causal else cache["value"]
    output = attention(queries, values, value_mask=mask, training=False, **options)
    entries = _projected(attention, queries) if is_plain else {"query": queries}
    return output, cache | {name: write_first(cache[name], entries[name]) for name in entries}


def write_first(store: Tensor, entries: Tensor) -> Tensor:
    """Return `store` (B, L, ...) with `entries` (B, P, ...) at positions 0 … P − 1."""
    entries = ops.cast(entries, store.dtype)
    both = ops.concatenate([entries, store[:, ops.shape(entries)[1] :]], axis=1)
    return both[:, : ops.shape(store)[1]]


def _has_plain_projections(attention: keras.layers.Layer) -> bool:
    """Return whether the output at each position is output_dense(attend(query, keys, values))."""
    if type(attention).call not in _PROJECTING:
        return False
    config = attention.get_config()
    return not config.get("use_gate") and config.get("sliding_window") is None


def _projected(
    attention: keras.layers.MultiHeadAttention, values: Tensor, start: Any = 0
) -> dict[str, Tensor]:
    """Return the keys, rotated, and values that a cache stores for `values` (B, L, D)."""
    if isinstance(attention, MultiHeadQuasiAttention):
        return dict(zip(("key", "value"), attention.project(values, start=start), strict=True))
    keys = projected(attention.key_dense, values)
    return {"key": keys, "value": projected(attention.value_dense, values)}


def _seen(store: Tensor, index: Any) -> Tensor:
    """Return a mask (1, L) that is True up to `index`."""
    places = ops.arange(ops.shape(store)[1], dtype="int32")
    return ops.expand_dims(places <= ops.cast(index, "int32"), 0)


def _write(store: Tensor, entry: Tensor, index: Any) -> Tensor:
    """Return `store` (B, L, ...) with `entry` (B, 1, ...) at `index`, for any model server.

    `ops.slice_update` on TensorFlow is an XLA operation, which a stock server may lack.
    """
    here = ops.equal(ops.arange(ops.shape(store)[1], dtype="int32"), ops.cast(index, "int32"))
    here = ops.reshape(here, (1, -1) + (1,) * (len(store.shape) - 2))  # (1, L, 1, ...)
    return ops.where(here, ops.cast(entry, store.dtype), store)
