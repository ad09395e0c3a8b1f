"""Options of heads that Keras' layer lacks: rotation by position, and keys that heads share."""

import dataclasses
import numbers
from typing import Any

from keras import ops

from keras_quasiattn.layers.shared.arguments import check_positive_integer
from keras_quasiattn.layers.shared.attention_axes import AttentionAxes
from keras_quasiattn.ops.positions import rotary_embedding

Tensor = Any


@dataclasses.dataclass(frozen=True)
class HeadOptions:
    """The heads of a multi-head layer, checked.

    Args:
        num_heads: N, heads of queries.
        key_dim: H, the size of a query's and a key's head.
        num_key_value_heads: G, heads of keys and values; G divides N. None = N. The first N / G
            heads of queries use the first head of keys and values, and so on.
        rotary_base: base of the angles of `ops.rotary_embedding`, by which queries and keys are
            rotated; H is then a multiple of 2·`parts`. None = no rotation.
        parts: into how many equal parts, each with scores of its own, the features of a head fall.
            Each is rotated by itself.

    Raises:
        ValueError: a size is not a positive integer, G does not divide N, the base is not a number
            above 1, or H cannot be rotated.
    """

    num_heads: int
    key_dim: int
    num_key_value_heads: int | None = None
    rotary_base: float | None = None
    parts: int = 1

    def __post_init__(self) -> None:
        check_positive_integer(self.num_heads, "num_heads")
        check_positive_integer(self.key_dim, "key_dim")
        shared, base = self.num_key_value_heads, self.rotary_base
        if shared is not None:
            check_positive_integer(shared, "num_key_value_heads")
            if self.num_heads % shared:
                raise ValueError(
                    "`num_key_value_heads` must divide `num_heads`. "
                    f"Received: num_key_value_heads={shared}, num_heads={self.num_heads}"
                )
        if base is None:
            return
        if not isinstance(base, numbers.Real) or isinstance(base, bool) or not base > 1:
            raise ValueError(
                "`rotary_base` must be None or a number above 1, such as 10_000.0. "
                f"Received: rotary_base={base!r}"
            )
        if self.key_dim % (2 * self.parts):
            raise ValueError(
                f"`key_dim` must be a multiple of {2 * self.parts} with `rotary_base`, because "
                "features are rotated in pairs. "
                f"Received: key_dim={self.key_dim}, rotary_base={base!r}"
            )

    @property
    def key_value_heads(self) -> int:
        """G."""
        return self.num_key_value_heads or self.num_heads

    def check_axes(self, axes: AttentionAxes) -> None:
        """Raises a `ValueError` for a rotation where positions have no order."""
        if self.rotary_base is not None:
            axes.require_single("rotary_base")

    def rotated(self, heads: Tensor, axes: AttentionAxes, start: Any = 0) -> Tensor:
        """Rotates queries or keys (B, L, ..., N, H), of which the first stands at `start`."""
        if self.rotary_base is None:
            return heads
        *positions, count, features = ops.shape(heads)
        parts = (*positions, count * self.parts, features // self.parts)
        turned = rotary_embedding(
            ops.reshape(heads, parts), start, self.rotary_base, axis=axes.axes[0]
        )
        return ops.reshape(turned, (*positions, count, features))

    def one_per_query_head(self, heads: Tensor) -> Tensor:
        """Repeats keys or values: (..., G, S, H) → (..., N, S, H)."""
        times = self.num_heads // self.key_value_heads
        return heads if times == 1 else ops.repeat(heads, times, axis=len(heads.shape) - 3)
