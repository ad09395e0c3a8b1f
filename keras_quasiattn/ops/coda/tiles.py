"""Sums of values under a weight matrix that exists one tile at a time, forward and backward."""

import dataclasses
from collections.abc import Callable
from typing import Any

from keras import ops

from keras_quasiattn.ops.composition_gradient import WeightRule
from keras_quasiattn.ops.dropout import dropout_keep
from keras_quasiattn.ops.loop import loop
from keras_quasiattn.ops.masking import zero_masked
from keras_quasiattn.ops.tile_masks import TileMasks
from keras_quasiattn.ops.tiles import DistanceTiles, joined, no_tiles, pad_axis, put, take, take_columns

Tensor = Any

KEY_SIDE = ("key", "distance_key", "value")
FULL = ("alpha_full", "beta_full")


@dataclasses.dataclass
class TiledWeights:
    """What a tile of M is made of, apart from the tensors that have gradients.

    Args:
        rule: how M is composed; what it does not use is not computed.
        masks: which pairs attend.
        dropout: share of M to drop.
        dropout_keys: (B,) integers, or None.
    """

    rule: WeightRule
    masks: TileMasks
    dropout: float = 0.0
    dropout_keys: Tensor | None = None

    @property
    def uses_similarity(self) -> bool:
        """Whether M depends on E."""
        return self.rule.similarity is not None

    @property
    def uses_distance(self) -> bool:
        """Whether M depends on N."""
        return self.rule.gate is not None

    def drop(self, x: Tensor, index: Any) -> Tensor:
        """Dropout of a tile; its pattern is a function of the position, so backward makes it again."""
        if not self.dropout:
            return x
        rows = ops.arange(self.masks.target, dtype="int32")
        size = self.masks.size
        columns = index * size + ops.arange(size, dtype="int32")
        keep = dropout_keep(self.dropout_keys, rows, columns, self.dropout)
        return ops.where(keep, x / (1 - self.dropout), ops.cast(0, x.dtype))


class _Tiles:
    """The tensors of one pass, padded to whole tiles."""

    def __init__(self, weights: TiledWeights, tensors: dict[str, Tensor]) -> None:
        masks = weights.masks
        self.weights, self.masks = weights, masks
        self.tensors = dict(tensors)
        for name in KEY_SIDE:
            if name in tensors:
                padded = pad_axis(tensors[name], 1, masks.padded_source)
                self.tensors[name] = zero_masked(padded, masks.real_keys)
        for name in FULL:
            if name in tensors:
                self.tensors[name] = pad_axis(tensors[name], 2, masks.padded_source)
        if weights.uses_distance:
            real = ops.cast(masks.real_keys, tensors["distance_query"].dtype)
            self.distances = DistanceTiles(
                tensors["distance_query"], self.tensors["distance_key"], real, masks.size
            )

    def key_tile(self, name: str, index: Any) -> Tensor:
        return take(self.tensors[name], index, self.masks.size)

    def full_tile(self, name: str, index: Any) -> Tensor:
        return take_columns(self.tensors[name], index, self.masks.size)

    def beta(self, index: Any) -> Tensor:
        return self.full_tile("beta_full", index) if "beta_full" in self.tensors else self.tensors["beta"]

    def weigh(self, index: Any) -> dict[str, Tensor]:
        """M of a tile with everything its gradient needs."""
        tile: dict[str, Tensor] = {"E": None, "N": None}
        if self.weights.uses_similarity:
            tile["dot"] = ops.einsum("btd,bsd->bts", self.tensors["query"], self.key_tile("key", index))
            tile["E"] = tile["dot"]
            if "alpha_full" in self.tensors:
                tile["E"] = tile["E"] * self.full_tile("alpha_full", index)
            if "similarity_offset" in self.tensors:
                tile["E"] = tile["E"] - self.tensors["similarity_offset"]
        if self.weights.uses_distance:
            tile["distance"] = self.distances.tile(index)
            tile["N"] = -self.beta(index) * tile["distance"]
            if "distance_offset" in self.tensors:
                tile["N"] = tile["N"] - self.tensors["distance_offset"]
        tile["mask"] = self.masks.tile(index)
        tile["M"], tile["dE"], tile["dN"] = self.weights.rule(tile["E"], tile["N"])
        tile["M"] = zero_masked(tile["M"], tile["mask"])
        tile["W"] = self.weights.drop(tile["M"], index)
        return tile


def tiled_sums(weights: TiledWeights, tensors: dict[str, Tensor]) -> tuple[Tensor, ...]:
    """M · value, and Mᵀ · other_value where that is given, without M.

    Args:
        weights: how M is composed.
        tensors: "query" (B, T, D), already times α; "key" (B, S, D); "distance_query" (B, T, F) and
            "distance_key" (B, S, F); "value" (B, S, V); "beta" (B, T, 1) or "beta_full" (B, T, S). Optional:
            "alpha_full" (B, T, S); "similarity_offset" and "distance_offset" (B, T, 1), subtracted from E and N;
            "other_value" (B, T, W). All in one dtype; gradients flow to all.

    Returns:
        (B, T, V), and (B, S, W) where "other_value" is given.
    """
    names = tuple(tensors)
    shapes = {name: ops.shape(tensor) for name, tensor in tensors.items()}
    batch, target = shapes["beta" if "beta" in shapes else "beta_full"][:2]
    sizes = [(target, tensors["value"].shape[-1])]
    if "other_value" in tensors:
        sizes.append((weights.masks.source, tensors["other_value"].shape[-1]))

    def split(packed: Tensor) -> list[Tensor]:
        if len(sizes) == 1:
            return [packed]
        first = sizes[0][0] * sizes[0][1]
        parts = (packed[:, :first], packed[:, first:])
        return [ops.reshape(part, (batch, *size)) for part, size in zip(parts, sizes, strict=True)]

    def pack(parts: list[Tensor]) -> Tensor:
        # One output, because Keras' custom gradients on PyTorch take one.
        if len(parts) == 1:
            return parts[0]
        flat = [
            ops.reshape(part, (batch, size[0] * size[1])) for part, size in zip(parts, sizes, strict=True)
        ]
        return ops.concatenate(flat, axis=1)

    @ops.custom_gradient
    def pooled(*arguments: Tensor) -> tuple[Tensor, Callable[..., tuple[Tensor, ...]]]:
        named = dict(zip(names, arguments, strict=True))

        def gradient(*upstreams: Tensor, upstream: Tensor | None = None) -> tuple[Tensor, ...]:
            packed = upstreams[0] if upstream is None else upstream
            gradients = _gradients(_Tiles(weights, named), split(packed))
            return tuple(gradients[name] for name in names)

        return pack(_outputs(_Tiles(weights, named))), gradient

    return tuple(split(pooled(*tensors.values())))


def _outputs(tiles: _Tiles) -> list[Tensor]:
    value, other = tiles.tensors["value"], tiles.tensors.get("other_value")
    batch, _, features = ops.shape(value)
    totals = [ops.zeros((batch, tiles.masks.target, features), dtype=value.dtype)]
    if other is not None:
        shape = (batch, tiles.masks.size, other.shape[-1])
        totals.append(no_tiles(tiles.masks.count, shape, value.dtype))

    def add(index: Any, totals: list[Tensor]) -> list[Tensor]:
        matrix = tiles.weigh(index)["W"]
        sums = [totals[0] + ops.einsum("bts,bsv->btv", matrix, tiles.key_tile("value", index))]
        if other is not None:
            sums.append(put(totals[1], index, ops.einsum("bts,btv->bsv", matrix, other)))
        return sums

    totals = loop(0, tiles.masks.count, add, totals)
    return [totals[0], *(joined(total, shape, 1)[:, : tiles.masks.source] for total in totals[1:])]


def _gradients(tiles: _Tiles, upstreams: list[Tensor]) -> dict[str, Tensor]:
    tensors, weights = tiles.tensors, tiles.weights
    upstream = upstreams[0]
    other_upstream = None
    if "other_value" in tensors:
        other_upstream = pad_axis(upstreams[1], 1, tiles.masks.padded_source)

    def slopes(index: Any, tile: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Gradients for E and N of one tile."""
        inner = ops.einsum("btv,bsv->bts", upstream, tiles.key_tile("value", index))
        if other_upstream is not None:
            shares = take(other_upstream, index, tiles.masks.size)
            inner = inner + ops.einsum("btv,bsv->bts", tensors["other_value"], shares)
        inner = weights.drop(inner, index)
        return tuple(zero_masked(inner * tile[name], tile["mask"]) for name in ("dE", "dN"))

    def add(index: Any, totals: dict[str, Tensor]) -> dict[str, Tensor]:
        totals, tile = dict(totals), tiles.weigh(index)

        def accumulate(name: str, gradient: Tensor) -> None:
            if name in totals:
                totals[name] = totals[name] + gradient

        totals["value"] = put(totals["value"], index, ops.einsum("bts,btv->bsv", tile["W"], upstream))
        if other_upstream is not None:
            shares = take(other_upstream, index, tiles.masks.size)
            accumulate("other_value", ops.einsum("bts,bsv->btv", tile["W"], shares))
        similarity, distance = slopes(index, tile)
        if weights.uses_similarity:
            accumulate("similarity_offset", -ops.sum(similarity, axis=2, keepdims=True))
            if "alpha_full" in totals:
                totals["alpha_full"] = put(totals["alpha_full"], index, similarity * tile["dot"])
                similarity = similarity * tiles.full_tile("alpha_full", index)
            accumulate("query", ops.einsum("bts,bsd->btd", similarity, tiles.key_tile("key", index)))
            keys = ops.einsum("bts,btd->bsd", similarity, tensors["query"])
            totals["key"] = put(totals["key"], index, keys)
        if weights.uses_distance:
            accumulate("distance_offset", -ops.sum(distance, axis=2, keepdims=True))
            if "beta" in totals:
                accumulate("beta", -ops.sum(distance * tile["distance"], axis=2, keepdims=True))
            else:
                columns = -distance * tile["distance"]
                totals["beta_full"] = put(totals["beta_full"], index, columns)
            rows, keys = tiles.distances.tile_gradient(index, -tiles.beta(index) * distance)
            accumulate("distance_query", rows)
            totals["distance_key"] = put(totals["distance_key"], index, keys)
        return totals

    size, count, source = tiles.masks.size, tiles.masks.count, tiles.masks.source
    shapes, room = {}, {}  # of a tile, where a step of the loop makes a tile of a gradient
    for name, tensor in tensors.items():
        batch, rows, columns = ops.shape(tensor)
        if name in KEY_SIDE or name in FULL:
            shapes[name] = (batch, size, columns) if name in KEY_SIDE else (batch, rows, size)
            room[name] = no_tiles(count, shapes[name], tensor.dtype)
        else:
            room[name] = ops.zeros((batch, rows, columns), dtype=tensor.dtype)
    totals = loop(0, count, add, room)
    for name, shape in shapes.items():
        axis = 1 if name in KEY_SIDE else 2
        whole = joined(totals[name], shape, axis)
        totals[name] = whole[:, :source] if axis == 1 else whole[..., :source]
    return totals
