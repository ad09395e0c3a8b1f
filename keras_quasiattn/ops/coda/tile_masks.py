"""The mask of one tile, combined from masks of rows, keys and pairs."""

import dataclasses
from typing import Any

from keras import ops

from keras_quasiattn.ops.masking import combine_masks
from keras_quasiattn.ops.tiling import flatten_leading, pad_axis, tile_count

Tensor = Any


@dataclasses.dataclass
class TileMasks:
    """Masks of a (B, T, S) problem, each kept in its own shape and not broadcast to (B, T, S).

    Args:
        lead: the leading lengths, whose product is B.
        target: T.
        source: S.
        size: keys per tile, an integer or an integer tensor.
        key_mask: (B, 1, S) or None.
        row_mask: (B, T, 1) or None.
        full_mask: (..., T, S) with the rank of (*lead, T, S), or None.
        is_causal: query i attends to keys 0 … i only.
    """

    lead: tuple[Any, ...]
    target: Any
    source: Any
    size: Any
    key_mask: Tensor | None = None
    row_mask: Tensor | None = None
    full_mask: Tensor | None = None
    is_causal: bool = False

    def __post_init__(self) -> None:
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
        if self.key_mask is not None or not self._whole_tiles():
            self.key_mask = real
        self.real_keys = ops.transpose(real, (0, 2, 1))  # (B or 1, padded S, 1)

    def _whole_tiles(self) -> bool:
        return isinstance(self.source, int) and self.source == self.padded_source

    def tile(self, index: Any) -> Tensor | None:
        """The mask of tile `index`, which broadcasts to (B, T, size), or None."""
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
