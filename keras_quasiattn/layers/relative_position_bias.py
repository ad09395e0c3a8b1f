"""A learned bias on attention scores for every head and distance."""

from typing import Any

import keras
from keras import ops

from keras_quasiattn.layers.shared.arguments import check_positive_integer
from keras_quasiattn.ops.checks import check_choice
from keras_quasiattn.ops.positions import relative_buckets

Tensor = Any


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class RelativePositionBias(keras.layers.Layer):
    """Learns what the distance between query and key adds to the scores of each head, as in T5.

    bias[n, t, s] = table[bucket(s − t), n]

    Near distances have a bucket each; farther ones share buckets that widen with the logarithm of
    the distance, and from `max_distance` on all share the last. The result is for the
    `attention_bias` of a multi-head layer; one such layer may serve all blocks, as in T5. The table
    starts at 0, where it changes nothing.

    Args:
        num_heads: positive integer N.
        num_buckets: rows of the table. Defaults to 32.
        max_distance: distance at which the last bucket begins. Defaults to 128.
        bidirectional: whether keys ahead of the query have half of the buckets to themselves; if
            not, as in a decoder, they count as distance 0. Defaults to True.
        **kwargs: `name`, `dtype`, `trainable`.

    Call arguments:
        query: (B, T, ...), of which only the length counts. Or the integer T, which Keras takes by
            name only: `layer(query=5, key=7)`.
        key: (B, S, ...), or S. Defaults to `query`.

    Returns:
        (N, T, S) in the compute dtype.

    Raises:
        ValueError: a number is not a positive integer, `num_buckets` is odd with `bidirectional` or
            below 2 for each direction, or `max_distance` is not above half of those.

    Example:
    >>> from keras_quasiattn.layers import MultiHeadCoDA, RelativePositionBias
    >>> x = keras.ops.ones((2, 5, 16))
    >>> bias = RelativePositionBias(num_heads=2)(x)
    >>> tuple(bias.shape), tuple(MultiHeadCoDA(2, 8)(x, x, attention_bias=bias).shape)
    ((2, 5, 5), (2, 5, 16))

    Source: Raffel et al. 2020, "Exploring the Limits of Transfer Learning with a Unified
    Text-to-Text Transformer", section 2.1, and its code.
    """

    def __init__(
        self,
        num_heads: int,
        num_buckets: int = 32,
        max_distance: int = 128,
        bidirectional: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True  # the bias of a masked pair does not matter
        self.num_heads = check_positive_integer(num_heads, "num_heads")
        self.num_buckets = check_positive_integer(num_buckets, "num_buckets")
        self.max_distance = check_positive_integer(max_distance, "max_distance")
        check_choice(bidirectional, (False, True), "bidirectional")
        self.bidirectional = bidirectional
        directions = 2 if bidirectional else 1
        if num_buckets % directions or num_buckets < 2 * directions:
            right = "even and at least 4" if bidirectional else "at least 2"
            raise ValueError(
                f"`num_buckets` must be {right}. "
                f"Received: num_buckets={num_buckets}, bidirectional={bidirectional}"
            )
        near = num_buckets // directions // 2
        if max_distance <= near:
            raise ValueError(
                f"`max_distance` must be above {near}, the number of distances with a bucket each. "
                f"Received: max_distance={max_distance}, num_buckets={num_buckets}"
            )

    def build(self, query_shape: Any = None, key_shape: Any = None) -> None:
        """Makes the table; the shapes do not matter."""
        self.table = self.add_weight(
            shape=(self.num_buckets, self.num_heads),
            initializer="zeros",
            autocast=False,
            name="table",
        )

    def call(self, query: Any, key: Any = None) -> Tensor:
        """Returns the bias; see the class."""
        target, source = _length(query), _length(query if key is None else key)
        # One value per offset, −T … S − 1, of which each pair takes its own.
        offsets = ops.arange(target + source, dtype="int32") - target
        buckets = relative_buckets(offsets, self.num_buckets, self.max_distance, self.bidirectional)
        values = ops.take(ops.transpose(self.table), buckets, axis=1)  # (N, T + S)
        rows = ops.expand_dims(ops.arange(target, dtype="int32"), 1)
        places = ops.arange(source, dtype="int32") - rows + target  # (T, S)
        bias = ops.take(values, ops.reshape(places, (-1,)), axis=1)  # (N, T · S)
        bias = ops.reshape(bias, (self.num_heads, target, source))
        return ops.cast(bias, self.compute_dtype)

    def compute_mask(self, *args: Any, **kwargs: Any) -> None:
        """Returns None: the bias has no positions of its own to mask."""

    def compute_output_spec(self, query: Any, key: Any = None) -> Any:
        """Returns the symbolic bias (N, T, S)."""
        lengths = (
            one if isinstance(one, int) else one.shape[1]
            for one in (query, query if key is None else key)
        )
        return keras.KerasTensor((self.num_heads, *lengths), dtype=self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        """Returns every constructor argument."""
        names = ("num_heads", "num_buckets", "max_distance", "bidirectional")
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}


def _length(x: Any) -> Any:
    return x if isinstance(x, int) else ops.shape(x)[1]
