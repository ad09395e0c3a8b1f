"""Signals of positions and steps, and biases of relative positions."""

import math
from typing import Any

import keras
from keras import ops

from keras_quasiattn.core.arguments import check, check_positive_integer, check_sequence, is_number
from keras_quasiattn.core.backend import cos, sin
from keras_quasiattn.core.configured import ConfiguredLayer
from keras_quasiattn.core.positions import relative_buckets
from keras_quasiattn.core.tensors import check_choice, compute_dtype

Tensor = Any


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class TimingSignal(ConfiguredLayer):
    """Add to every position t a fixed vector of sines and cosines of t.

    signal[t] = [sin(t·r_0) … sin(t·r_{h−1}), cos(t·r_0) … cos(t·r_{h−1})], h = D // 2,
    r_i = max_timescale^(−i / (h − 1))

    If D is odd, the last feature of the signal is 0. Any length works. A mask is passed on.

    Args:
        max_timescale: number above 1; the longest wave is 2π·max_timescale. Defaults to 10,000.

    Call arguments:
        inputs: (B, T, D).
        start_index: scalar integer, position of the first input. Defaults to 0.

    Returns:
        (B, T, D).

    Raises:
        ValueError: `max_timescale` is not a finite number above 1.

    Example:
    >>> keras.ops.convert_to_numpy(TimingSignal()(keras.ops.zeros((1, 2, 4))))[0, 0].tolist()
    [0.0, 0.0, 1.0, 1.0]

    Source: Vaswani et al. 2017, "Attention Is All You Need", section 3.5, in Tensor2Tensor's
    order of features.
    """

    def __init__(self, max_timescale: float = 1e4, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        fits = is_number(max_timescale) and 1 < max_timescale < math.inf
        expected = "a finite number above 1"
        self.max_timescale = check(fits, max_timescale, "max_timescale", expected)

    def call(self, inputs: Tensor, start_index: Any = 0) -> Tensor:
        """Add the signal; see the class."""
        inputs = ops.cast(inputs, self.compute_dtype)  # Keras does not cast integers
        length, width = ops.shape(inputs)[1], inputs.shape[-1]
        half = width // 2
        # At least float32: float16 cannot tell positions above 2048 apart.
        dtype = compute_dtype(inputs)
        positions = ops.arange(length, dtype="int32") + ops.cast(start_index, "int32")
        positions = ops.cast(positions, dtype)
        step = -math.log(self.max_timescale) / max(half - 1, 1)  # in the logarithm of the rates
        rates = ops.exp(ops.arange(half, dtype=dtype) * step)
        angles = ops.expand_dims(positions, 1) * ops.expand_dims(rates, 0)  # (T, D // 2)
        signal = ops.concatenate([sin(angles), cos(angles)], axis=-1)  # (T, 2·(D // 2))
        signal = ops.pad(signal, [[0, 0], [0, width % 2]])  # (T, D)
        return inputs + ops.cast(ops.expand_dims(signal, 0), inputs.dtype)

    def compute_output_shape(self, inputs_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        """Return the shape of the inputs."""
        return tuple(inputs_shape)


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class StepSignal(ConfiguredLayer):
    """Add a learned vector for the current step to every position.

    output = x + √D·table[step], table drawn from N(0, 1/D)

    The layer ignores a mask and passes it on.

    Args:
        num_steps: positive integer, the number of steps.

    Call arguments:
        inputs: (B, T, D).
        step: Python integer in [0, num_steps).

    Returns:
        (B, T, D).

    Raises:
        ValueError: `num_steps` is not a positive integer, or `step` is out of range.

    Example:
    >>> StepSignal(num_steps=4)(keras.ops.zeros((1, 2, 8)), step=3).shape == (1, 2, 8)
    True

    Source: Dehghani et al. 2019, "Universal Transformers", section 2.1, learned as in
    Tensor2Tensor.
    """

    def __init__(self, num_steps: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.num_steps = check_positive_integer(num_steps, "num_steps")

    def build(self, inputs_shape: tuple[int | None, ...]) -> None:
        """Make the table (num_steps, D)."""
        width = check_sequence(inputs_shape, "inputs")
        initializer = keras.initializers.RandomNormal(stddev=width**-0.5)
        self.table = self.add_weight((self.num_steps, width), initializer, name="table")

    def call(self, inputs: Tensor, step: int) -> Tensor:
        """Add the vector of `step`; see the class."""
        check(0 <= step < self.num_steps, step, "step", f"in [0, {self.num_steps})")
        inputs = ops.cast(inputs, self.compute_dtype)  # Keras does not cast integers
        return inputs + self.table[step] * inputs.shape[-1] ** 0.5

    def compute_output_shape(self, inputs_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        """Return the shape of the inputs."""
        return tuple(inputs_shape)


@keras.saving.register_keras_serializable(package="keras_quasiattn")
class RelativePositionBias(ConfiguredLayer):
    """Learn a bias on the scores of each head for the distance between query and key, as in T5.

    bias[n, t, s] = table[bucket(s − t), n]

    Each short distance has its own bucket; longer ones share buckets whose width grows
    logarithmically, and all from `max_distance` on share the last one. Pass the result as
    `attention_bias` to multi-head layers; one bias may serve all blocks, as in T5. The table starts
    at 0.

    Args:
        num_heads: positive integer N.
        num_buckets: rows of the table. Defaults to 32.
        max_distance: distance at which the last bucket begins. Defaults to 128.
        bidirectional: whether half of the buckets are for keys ahead of the query; otherwise, as in
            a decoder, these keys count as distance 0. Defaults to True.

    Call arguments:
        query: (B, T, ...), of which only the length matters; or the integer T, which Keras accepts
            only by keyword: `layer(query=5, key=7)`.
        key: (B, S, ...), or S. Defaults to `query`.

    Returns:
        (N, T, S) in the compute dtype.

    Raises:
        ValueError: a number is not a positive integer, `num_buckets` is odd with `bidirectional` or
            below 2 for each direction, or `max_distance` is not above half the buckets of a
            direction.

    Example:
    >>> from keras_quasiattn.layers import MultiHeadCoDA
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
        self.num_heads = check_positive_integer(num_heads, "num_heads")
        self.num_buckets = check_positive_integer(num_buckets, "num_buckets")
        self.max_distance = check_positive_integer(max_distance, "max_distance")
        self.bidirectional = check_choice(bidirectional, (False, True), "bidirectional")
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
        """Make the table; the shapes do not matter."""
        shape = (self.num_buckets, self.num_heads)
        self.table = self.add_weight(shape, "zeros", autocast=False, name="table")

    def call(self, query: Any, key: Any = None) -> Tensor:
        """Return the bias; see the class."""
        target, source = _length(query), _length(query if key is None else key)
        # One value per offset, −T … S − 1, from which each pair takes its value.
        offsets = ops.arange(target + source, dtype="int32") - target
        buckets = relative_buckets(offsets, self.num_buckets, self.max_distance, self.bidirectional)
        values = ops.take(ops.transpose(self.table), buckets, axis=1)  # (N, T + S)
        rows = ops.expand_dims(ops.arange(target, dtype="int32"), 1)
        places = ops.arange(source, dtype="int32") - rows + target  # (T, S)
        bias = ops.take(values, ops.reshape(places, (-1,)), axis=1)  # (N, T · S)
        bias = ops.reshape(bias, (self.num_heads, target, source))
        return ops.cast(bias, self.compute_dtype)

    def compute_mask(self, *args: Any, **kwargs: Any) -> None:
        """Return None: the bias has no positions to mask."""

    def compute_output_spec(self, query: Any, key: Any = None) -> Any:
        """Return the symbolic bias (N, T, S)."""
        both = (query, query if key is None else key)
        lengths = (one if isinstance(one, int) else one.shape[1] for one in both)
        return keras.KerasTensor((self.num_heads, *lengths), dtype=self.compute_dtype)


def _length(x: Any) -> Any:
    return x if isinstance(x, int) else ops.shape(x)[1]
