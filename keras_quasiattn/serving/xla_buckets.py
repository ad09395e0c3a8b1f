"""Models compiled by XLA inside a SavedModel, one program per bucket, for servers on CPUs."""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import keras
import tensorflow as tf

BATCHES: Final = (1, 8, 64)
_SHORTEST: Final = 16
_NONE: Final = 2**31 - 1


class Buckets(NamedTuple):
    """The sizes to which a compiled model pads, because XLA compiles every new size again.

    A larger batch is padded to a multiple of the largest size.
    """

    lengths: tuple[int, ...]
    batches: tuple[int, ...] = BATCHES

    @classmethod
    def up_to(cls, longest: int) -> "Buckets":
        """Return buckets whose lengths double from 16 up to `longest`."""
        lengths = [min(_SHORTEST, longest)]
        while lengths[-1] < longest:
            lengths.append(min(2 * lengths[-1], longest))
        return cls(tuple(lengths))


class CompiledModel:
    """A wrapper that makes XLA compile each call of a model, for use in serving signatures.

    Each call pads the ids with 0 to the next bucket, and cuts the outputs to size. The models mask
    padding, so neither padding nor an empty row changes an answer.
    """

    def __init__(self, model: keras.Model, buckets: Buckets) -> None:
        self._model, self._buckets = model, buckets

    def explain(self, *ids: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return what the model's own `explain` returns."""
        return self._compiled(self._model.explain, ids)

    def __call__(self, inputs: Any, training: bool = False) -> Any:
        """Return what the model returns."""

        def call(*ids: tf.Tensor) -> Any:
            return self._model(tf.nest.pack_sequence_as(inputs, ids), training=training)

        return self._compiled(call, tf.nest.flatten(inputs))

    def _compiled(self, function: Callable[..., Any], ids: Sequence[tf.Tensor]) -> Any:
        with tf.init_scope():
            axes = _axes(function, len(ids))
        sizes = [tf.shape(ids[0])[0], *(tf.shape(one)[1] for one in ids)]
        rows = _bucket(sizes[0], self._buckets.batches)
        length = _bucket(tf.reduce_max(sizes[1:]), self._buckets.lengths)
        padded = [
            tf.pad(one, [[0, rows - sizes[0]], [0, length - own]])
            for one, own in zip(ids, sizes[1:], strict=True)
        ]
        outputs = tf.function(function, jit_compile=True, autograph=False)(*padded)
        cut = [
            tf.slice(output, [0] * len(places), [-1 if at is None else sizes[at] for at in places])
            for output, places in zip(tf.nest.flatten(outputs), axes, strict=True)
        ]
        return tf.nest.pack_sequence_as(outputs, cut)


def _axes(function: Callable[..., Any], inputs: int) -> list[list[int | None]]:
    """Determine, from two calls with different sizes, what sets the length of each output axis.

    An axis is 0 if it has the length of the batch, n if it has the length of the n-th input's
    texts, None if its length is fixed.
    """
    small, large = (
        [2 + place + add * (place + 1) for place in range(inputs + 1)] for add in (0, 1)
    )
    shapes = []
    for rows, *lengths in (small, large):
        outputs = function(*(tf.ones((rows, length), tf.int32) for length in lengths))
        shapes.append([output.shape for output in tf.nest.flatten(outputs)])
    places = {pair: place for place, pair in enumerate(zip(small, large, strict=True))}
    pairs = (zip(*both, strict=True) for both in zip(*shapes, strict=True))
    return [[places.get(pair) for pair in of_output] for of_output in pairs]


def _bucket(size: tf.Tensor, buckets: Sequence[int]) -> tf.Tensor:
    """Return the smallest bucket that holds `size`, or else a multiple of the largest."""
    fitting = tf.reduce_min([tf.where(bucket >= size, bucket, _NONE) for bucket in buckets])
    last = buckets[-1]
    return tf.where(size > last, (size + last - 1) // last * last, fitting)
