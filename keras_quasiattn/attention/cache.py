"""Incremental attention, one query at a time, with a cache of earlier positions.

`read_into_cache` processes all queries of a prompt in one call.

For `keras.layers.MultiHeadAttention` and the subclasses in this package the cache holds the
projected keys and values. Any other layer is called on all positions so far, and the row of the
current query is returned, which costs more but gives the same result. This also applies to options
that depend on the position of a query (`sliding_window`) or need another projection (`use_gate`).
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
        queries: (B, L, D), where L is the number of queries to come; the values are overwritten or
            ignored.
        values: None for self-attention; else (B, S, E), what every query attends to.

    Returns:
        A dict of tensors whose first axis is the batch.
    """
    if _has_plain_projections(attention):
        values = queries if values is None else values
        return _projected(attention, values)
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

    Args:
        attention: the layer for which the cache was started.
        query: (B, 1, D), the query at `index`.
        index: scalar integer, counted from 0.
        cache: from `start_attention_cache`, or from the call for the previous position.
        mask: optional boolean (B, L), or (B, S) in cross-attention; True = attend.
        is_causal: True for self-attention: the query is added to the keys, and only positions up to
            `index` are visible. False for cross-attention.

    Returns:
        (B, 1, D) and the cache for the next position.
    """
    if _has_plain_projections(attention):
        if is_causal:
            new = _projected(attention, query, index)
            cache = {name: _write(cache[name], new[name], index) for name in new}
            mask = combine_masks(_seen(cache["key"], index), mask)  # (1 or B, L)
        output, _ = attention._compute_attention(
            attention.project_query(query, index)
            if isinstance(attention, MultiHeadQuasiAttention)
            else projected(attention.query_dense, query),
            cache["key"],
            cache["value"],
            pair_mask(None, mask),
            training=False,
        )
        output = projected(attention.output_dense, output)
        if mask is not None and isinstance(attention, MultiHeadQuasiAttention):
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

    Args:
        attention: the layer for which the cache was started.
        queries: (B, P, D), the queries at positions 0 … P − 1; those beyond the cache's length are
            not stored.
        cache: from `start_attention_cache`.
        mask: optional boolean (B, P), or (B, S) in cross-attention; True = attend.
        is_causal: True for self-attention, False for cross-attention.

    Returns:
        (B, P, D) and the cache for position P or any earlier one: later entries are overwritten
        before they are visible.
    """
    is_plain = _has_plain_projections(attention)
    if is_plain and not is_causal:
        # Only rotations depend on the position of a query, and they need only that of the first.
        return attend_from_cache(attention, queries, 0, cache, mask)
    options = {"use_causal_mask": True, "query_mask": mask} if is_causal else {}
    output = attention(
        queries,
        queries if is_causal else cache["value"],
        value_mask=mask,
        training=False,
        **options,
    )
    entries = _projected(attention, queries) if is_plain else {"query": queries}
    return output, cache | {name: write_first(cache[name], entries[name]) for name in entries}


def write_first(store: Tensor, entries: Tensor) -> Tensor:
    """Return `store` (B, L, ...) with `entries` (B, P, ...) at positions 0 … P − 1."""
    entries = ops.cast(entries, store.dtype)
    both = ops.concatenate([entries, store[:, ops.shape(entries)[1] :]], axis=1)
    return both[:, : ops.shape(store)[1]]


def _has_plain_projections(attention: keras.layers.Layer) -> bool:
    """Return whether the output at each position is output_dense(attend(query, keys, values)).

    Query, keys and values are then query_dense(q), key_dense(k) and value_dense(v).
    """
    if (
        not isinstance(attention, keras.layers.MultiHeadAttention)
        or type(attention).call not in _PROJECTING
    ):
        return False
    config = attention.get_config()
    return not config.get("use_gate") and config.get("sliding_window") is None


def _projected(
    attention: keras.layers.MultiHeadAttention, values: Tensor, start: Any = 0
) -> dict[str, Tensor]:
    """Return the keys and values that a cache stores for `values` (B, L, D) at `start` and later.

    If the layer rotates keys, they are already rotated. Both have as many heads as the layer
    projects to.
    """
    if isinstance(attention, MultiHeadQuasiAttention):
        return dict(zip(("key", "value"), attention.project(values, start=start), strict=True))
    return {
        "key": projected(attention.key_dense, values),
        "value": projected(attention.value_dense, values),
    }


def _seen(store: Tensor, index: Any) -> Tensor:
    """Return a mask (1, L) that is True up to `index`."""
    return ops.expand_dims(
        ops.arange(ops.shape(store)[1], dtype="int32") <= ops.cast(index, "int32"), 0
    )


def _write(store: Tensor, entry: Tensor, index: Any) -> Tensor:
    """Return `store` (B, L, ...) with `entry` (B, 1, ...) at `index`.

    This uses `where`, because `ops.slice_update` on TensorFlow is an XLA operation that a stock
    model server may lack.
    """
    here = ops.equal(ops.arange(ops.shape(store)[1], dtype="int32"), ops.cast(index, "int32"))
    here = ops.reshape(here, (1, -1) + (1,) * (len(store.shape) - 2))  # (1, L, 1, ...)
    return ops.where(here, ops.cast(entry, store.dtype), store)
