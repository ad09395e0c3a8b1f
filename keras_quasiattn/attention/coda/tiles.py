"""CoDA by tiles of keys: masks, weights, sums and gradients."""

import copy
import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from keras import ops

from keras_quasiattn.attention.coda.composition import WeightRule
from keras_quasiattn.core.backend import loop, with_gradient
from keras_quasiattn.core.l1 import DistanceTiles
from keras_quasiattn.core.masks import combine_masks, zero_masked
from keras_quasiattn.core.randomness import dropout_keep
from keras_quasiattn.core.score_bias import add_score_bias
from keras_quasiattn.core.tiling import (
    empty_tiles,
    flatten_leading,
    joined,
    keys_per_tile,
    pad_axis,
    put,
    take,
    take_columns,
    tile_count,
)

Tensor = Any


@dataclasses.dataclass
class TileMasks:
    """Masks of a (B, T, S) problem, each kept in its own shape and not broadcast to (B, T, S).

    `lead` are the leading lengths, whose product is B. `size`, the number of keys in a tile, may be
    a tensor. The masks are `key_mask` (B, 1, S), `row_mask` (B, T, 1), and `full_mask` (..., T, S)
    with the rank of (*lead, T, S).
    """

    lead: tuple[Any, ...]
    target: Any
    source: Any
    key_mask: Tensor | None = None
    row_mask: Tensor | None = None
    full_mask: Tensor | None = None
    is_causal: bool = False

    def __post_init__(self) -> None:
        self.size = keys_per_tile(self.target, self.source)
        self.count = tile_count(self.source, self.size)
        self.padded_source = self.count * self.size
        real = self.key_mask
        if self.full_mask is not None:
            # (..., 1, S): a key that no query attends to is treated as padding.
            seen = ops.any(self.full_mask, axis=-2, keepdims=True)
            real = combine_masks(real, flatten_leading(seen, self.lead, 1, self.source))
            self.full_mask = pad_axis(self.full_mask, len(self.lead) + 1, self.padded_source)
        if real is None:
            real = ops.ones((1, 1, self.source), dtype="bool")
        real = pad_axis(real, 2, self.padded_source)
        # Keys that only fill the last tile are masked.
        is_full = isinstance(self.source, int) and self.source == self.padded_source
        if self.key_mask is not None or not is_full:
            self.key_mask = real
        self.real_keys = ops.transpose(real, (0, 2, 1))  # (B or 1, padded S, 1)

    def tile(self, index: Any) -> Tensor | None:
        """Return the mask of tile `index`, which broadcasts to (B, T, size), or None."""
        masks = [self.row_mask]
        start = index * self.size
        if self.key_mask is not None:
            batch = ops.shape(self.key_mask)[0]
            masks.append(ops.slice(self.key_mask, (0, 0, start), (batch, 1, self.size)))
        if self.full_mask is not None:
            shape = ops.shape(self.full_mask)[:-1]
            # (..., T, size) → (B, T, size)
            part = ops.slice(self.full_mask, (0,) * len(shape) + (start,), (*shape, self.size))
            masks.append(flatten_leading(part, self.lead, self.target, self.size))
        if self.is_causal:
            rows = ops.arange(self.target, dtype="int32")[None, :, None]
            columns = start + ops.arange(self.size, dtype="int32")
            masks.append(ops.less_equal(columns[None, None, :], rows))
        return combine_masks(*masks)


KEY_SIDE = ("key", "distance_key", "value")
OF_PAIRS = ("alpha", "beta", "bias")  # (…, T, S), or with length 1 in place of S


@dataclasses.dataclass
class TiledWeights:
    """How tiles of M are computed: all but the tensors that have gradients.

    `dropout_keys` are (B,) integers. `bias_lead` are the lengths that the first axis of "bias"
    merges, each 1 or as in the `lead` of `masks`.
    """

    rule: WeightRule
    masks: TileMasks
    dropout: float = 0.0
    dropout_keys: Tensor | None = None
    bias_lead: tuple[Any, ...] = ()

    @property
    def held(self) -> dict[str, Tensor]:
        """The masks and keys, which have no gradients, by name."""
        names = ("key_mask", "row_mask", "full_mask", "real_keys")
        found = {name: getattr(self.masks, name) for name in names}
        found["dropout_keys"] = self.dropout_keys
        return {name: x for name, x in found.items() if x is not None}

    def holding(self, tensors: dict[str, Tensor]) -> "TiledWeights":
        """Return a copy with other tensors of the names in `held`."""
        masks = copy.copy(self.masks)  # already padded
        vars(masks).update({name: x for name, x in tensors.items() if name != "dropout_keys"})
        return dataclasses.replace(self, masks=masks, dropout_keys=tensors.get("dropout_keys"))

    def drop(self, x: Tensor, index: Any) -> Tensor:
        """Drop weights of tile `index`; the backward pass finds the same from the positions."""
        if not self.dropout:
            return x
        rows = ops.arange(self.masks.target, dtype="int32")
        size = self.masks.size
        columns = index * size + ops.arange(size, dtype="int32")
        keep = dropout_keep(self.dropout_keys, rows, columns, self.dropout)
        return ops.where(keep, x / (1 - self.dropout), ops.cast(0, x.dtype))


@dataclasses.dataclass
class Tile:
    """The inputs of the weights of one tile, each (B, T, size); None if they are not used."""

    products: Tensor | None  # query · keyᵀ
    similarity: Tensor | None  # E
    distance: Tensor | None
    negative_distance: Tensor | None  # N
    mask: Tensor | None


class Tiles:
    """The tensors of one pass, as for `tiled_sums`, with the key axis padded to whole tiles."""

    def __init__(self, weights: TiledWeights, tensors: dict[str, Tensor]) -> None:
        masks = weights.masks
        self.weights, self.masks = weights, masks
        self.tensors = dict(tensors)
        for name in tensors:
            axis = self.key_axis(name)
            if axis is not None:
                padded = pad_axis(tensors[name], axis, masks.padded_source)
                self.tensors[name] = zero_masked(padded, masks.real_keys) if axis == 1 else padded
        if weights.rule.gate:
            query, key = self.tensors["distance_query"], self.tensors["distance_key"]
            real = ops.cast(masks.real_keys, query.dtype)
            self.distances = DistanceTiles(query, key, real, masks.size)

    def key_axis(self, name: str) -> int | None:
        """Return the axis of keys in a tensor; None if it has none or is the same for all keys."""
        if name in KEY_SIDE:
            return 1
        return 2 if name in OF_PAIRS and self.tensors[name].shape[2] != 1 else None

    def part(self, name: str, index: Any) -> Tensor:
        """Return the part of a tensor in tile `index`: (B, size, ·), (B, T, size) or (B, T, ·)."""
        axis, tensor = self.key_axis(name), self.tensors[name]
        if axis is None:
            return tensor
        return (take if axis == 1 else take_columns)(tensor, index, self.masks.size)

    def tile(self, index: Any) -> Tile:
        """Return the inputs of the weights of tile `index`."""
        products = similarity = distance = negative_distance = None
        mask = self.masks.tile(index)
        if self.weights.rule.similarity:
            products = ops.einsum("btd,bsd->bts", self.tensors["query"], self.part("key", index))
            similarity = products
            if "alpha" in self.tensors:
                similarity = similarity * self.part("alpha", index)
            if "bias" in self.tensors:
                similarity = add_score_bias(similarity, self._bias(index), mask)
            if "similarity_offset" in self.tensors:
                similarity = similarity - self.tensors["similarity_offset"]
        if self.weights.rule.gate:
            distance = self.distances.tile(index)
            negative_distance = -self.part("beta", index) * distance
            if "distance_offset" in self.tensors:
                negative_distance = negative_distance - self.tensors["distance_offset"]
        return Tile(products, similarity, distance, negative_distance, mask)

    def _bias(self, index: Any) -> Tensor:
        """Return the bias of tile `index`, (B, T or 1, size or 1)."""
        part, lead = self.part("bias", index), self.weights.bias_lead
        size = ops.shape(part)[1:]
        return flatten_leading(ops.reshape(part, (*lead, *size)), self.masks.lead, *size)

    def bias_gradient(self, by_similarity: Tensor) -> Tensor:
        """Return the gradient of a tile's bias from E's (B, T, size): summed where it is shared."""
        lead, size = self.weights.bias_lead, ops.shape(by_similarity)[1:]
        own = (*lead, *self.tensors["bias"].shape[1:])
        shared = tuple(axis for axis, n in enumerate(own) if isinstance(n, int) and n == 1)
        total = ops.reshape(by_similarity, (*self.masks.lead, *size))
        total = ops.sum(total, axis=shared, keepdims=True) if shared else total
        return ops.reshape(total, (math.prod(lead), *ops.shape(total)[-2:]))

    def weigh(self, tile: Tile, index: Any) -> Tensor:
        """Return M of tile `index`, (B, T, size), after masks and dropout."""
        weights = self.weights.rule.weights(tile.similarity, tile.negative_distance)
        return self.weights.drop(zero_masked(weights, tile.mask), index)


def tiled_sums(weights: TiledWeights, tensors: dict[str, Tensor]) -> tuple[Tensor, ...]:
    """Return M · value (B, T, V), and Mᵀ · other_value (B, S, W) if it is given.

    The tensors are "query" (B, T, D), "key" (B, S, D), "distance_query" (B, T, F), "distance_key"
    (B, S, F), "value" (B, S, V) and "beta" (B, T, 1) or (B, T, S). Optional are "alpha" in the
    shapes of "beta", unless "query" is multiplied by it already; "bias" (L, T or 1, S or 1), added
    to E; "similarity_offset" and "distance_offset" (B, T, 1), subtracted from E and N; and
    "other_value" (B, T, W). All have one dtype, and get gradients.
    """
    held = weights.held

    def tiles(arguments: Sequence[Tensor]) -> Tiles:
        given = dict(zip((*tensors, *held), arguments, strict=True))
        own = weights.holding({name: given.pop(name) for name in held})
        return Tiles(own, given)

    def gradient(arguments: Sequence[Tensor], upstreams: Sequence[Tensor]) -> tuple[Tensor, ...]:
        gradients = _gradients(tiles(arguments), *upstreams)
        return tuple(gradients[name] for name in tensors)

    pooled = with_gradient(lambda *arguments: _sums(tiles(arguments)), gradient)
    return pooled(*tensors.values(), *held.values())


def _sums(tiles: Tiles) -> tuple[Tensor, ...]:
    value, other = tiles.tensors["value"], tiles.tensors.get("other_value")
    batch, _, features = ops.shape(value)
    # (B, T, V), summed over the tiles; then a buffer of tiles (B, size, W).
    totals = [ops.zeros((batch, tiles.masks.target, features), dtype=value.dtype)]
    if other is not None:
        shape = (batch, tiles.masks.size, other.shape[-1])
        totals.append(empty_tiles(tiles.masks.count, shape, value.dtype))

    def add(index: Any, totals: list[Tensor]) -> list[Tensor]:
        weights = tiles.weigh(tiles.tile(index), index)
        sums = [totals[0] + ops.einsum("bts,bsv->btv", weights, tiles.part("value", index))]
        if other is not None:
            sums.append(put(totals[1], index, ops.einsum("bts,btv->bsv", weights, other)))
        return sums

    totals = loop(0, tiles.masks.count, add, totals)
    return totals[0], *(joined(total, shape, 1)[:, : tiles.masks.source] for total in totals[1:])


def _gradients(
    tiles: Tiles, upstream: Tensor, other_upstream: Tensor | None = None
) -> dict[str, Tensor]:
    """Return the gradients of all tensors: tile by tile where there is a key axis, else sums."""
    if other_upstream is not None:
        other_upstream = pad_axis(other_upstream, 1, tiles.masks.padded_source)
    # For tensors with a key axis: that axis, and the shape of one tile.
    start, key_axes, shapes = {}, {}, {}
    for name, tensor in tiles.tensors.items():
        shape, axis = list(ops.shape(tensor)), tiles.key_axis(name)
        if axis is None:
            start[name] = ops.zeros(shape, dtype=tensor.dtype)
        else:
            shape[axis] = tiles.masks.size
            key_axes[name], shapes[name] = axis, (shape[0], shape[1], shape[2])
            start[name] = empty_tiles(tiles.masks.count, shapes[name], tensor.dtype)

    def add(index: Any, totals: dict[str, Tensor]) -> dict[str, Tensor]:
        shares = None if other_upstream is None else take(other_upstream, index, tiles.masks.size)
        totals = dict(totals)
        for name, part in _tile_gradients(tiles, index, upstream, shares).items():
            totals[name] = put(totals[name], index, part) if name in shapes else totals[name] + part
        return totals

    totals = loop(0, tiles.masks.count, add, start)
    for name, axis in key_axes.items():
        whole = joined(totals[name], shapes[name], axis)
        source = tiles.masks.source
        totals[name] = whole[:, :source] if axis == 1 else whole[..., :source]
    return totals


def _tile_gradients(
    tiles: Tiles, index: Any, upstream: Tensor, other_upstream: Tensor | None
) -> dict[str, Tensor]:
    """Return what tile `index` adds to each gradient, from upstreams (B, T, V) and (B, size, W)."""
    tile, rule = tiles.tile(index), tiles.weights.rule
    weights = tiles.weigh(tile, index)
    parts = {"value": ops.einsum("bts,btv->bsv", weights, upstream)}
    # The gradient of the weights, (B, T, size).
    by_weights = ops.einsum("btv,bsv->bts", upstream, tiles.part("value", index))
    if other_upstream is not None:
        parts["other_value"] = ops.einsum("bts,bsv->btv", weights, other_upstream)
        other = tiles.tensors["other_value"]
        by_weights = by_weights + ops.einsum("btv,bsv->bts", other, other_upstream)
    by_weights = tiles.weights.drop(by_weights, index)

    by_similarity, by_negative_distance = rule.derivatives(tile.similarity, tile.negative_distance)
    if rule.similarity:
        by_similarity = zero_masked(by_weights * by_similarity, tile.mask)
        parts |= _similarity_gradients(tiles, index, tile, by_similarity)
    if rule.gate:
        by_negative_distance = zero_masked(by_weights * by_negative_distance, tile.mask)
        parts |= _distance_gradients(tiles, index, tile, by_negative_distance)
    return parts


def _similarity_gradients(
    tiles: Tiles, index: Any, tile: Tile, by_similarity: Tensor
) -> dict[str, Tensor]:
    """Return the gradients of the tensors in E = α · query · keyᵀ + bias − offset, from E's."""
    # (B, T, 1) for offsets, (B, T, 1 or size) for factors, (B, T, D) and (B, size, D).
    parts, by_products = {}, by_similarity
    if "similarity_offset" in tiles.tensors:
        parts["similarity_offset"] = -ops.sum(by_similarity, axis=2, keepdims=True)
    if "bias" in tiles.tensors:
        parts["bias"] = tiles.bias_gradient(by_similarity)
    if "alpha" in tiles.tensors:
        parts["alpha"] = _of_factor(tiles, "alpha", by_similarity * tile.products)
        by_products = by_similarity * tiles.part("alpha", index)
    parts["query"] = ops.einsum("bts,bsd->btd", by_products, tiles.part("key", index))
    parts["key"] = ops.einsum("bts,btd->bsd", by_products, tiles.tensors["query"])
    return parts


def _distance_gradients(
    tiles: Tiles, index: Any, tile: Tile, by_negative_distance: Tensor
) -> dict[str, Tensor]:
    """Return the gradients of the tensors in N = −β · distance − offset, from the gradient of N."""
    parts = {"beta": _of_factor(tiles, "beta", -by_negative_distance * tile.distance)}
    if "distance_offset" in tiles.tensors:
        parts["distance_offset"] = -ops.sum(by_negative_distance, axis=2, keepdims=True)
    by_distance = -tiles.part("beta", index) * by_negative_distance
    by_query, by_key = tiles.distances.tile_gradient(index, by_distance)
    parts |= {"distance_query": by_query, "distance_key": by_key}
    return parts


def _of_factor(tiles: Tiles, name: str, gradient: Tensor) -> Tensor:
    """Return a factor's gradient from one per pair, summed if all keys share the factor."""
    return gradient if tiles.key_axis(name) else ops.sum(gradient, axis=2, keepdims=True)
