"""Models that XLA compiles inside a SavedModel, for servers on CPUs."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from keras_quasiattn.serving.signatures import TOKEN_IDS, example_inputs
from keras_quasiattn.tasks import ServingSignature

BATCHES: Final = (1, 8, 64)
_SHORTEST: Final = 16
_NONE: Final = 2**31 - 1


class Buckets(NamedTuple):
    """The sizes to which a compiled model pads, because XLA compiles each pair of them anew.

    A larger batch is padded to a multiple of the largest size.

    Args:
        lengths: ascending numbers of ids of a text.
        batches: ascending numbers of rows.
    """

    lengths: tuple[int, ...]
    batches: tuple[int, ...] = BATCHES

    @classmethod
    def up_to(cls, longest: int) -> "Buckets":
        """Lengths that double from 16 up to `longest`."""
        lengths = [_SHORTEST]
        while lengths[-1] < longest:
            lengths.append(min(2 * lengths[-1], longest))
        return cls(tuple(lengths) if longest >= _SHORTEST else (longest,))


class CompiledModel:
    """A model of which XLA compiles each call; it stands for the model in a serving signature.

    Ids are padded with 0 to the next bucket before a call, and the outputs are cut back after it.
    By the law of masks, neither padding nor an empty row changes an answer.

    Args:
        model: has `explain`, or takes a dictionary of ids; every input is (B, L), int32.
        buckets: the sizes to pad to.
    """

    def __init__(self, model: keras.Model, buckets: Buckets) -> None:
        self._model, self._buckets = model, buckets

    def explain(self, *ids: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns what the model's own `explain` returns."""
        return self._compiled(self._model.explain, ids)

    def __call__(self, inputs: dict[str, tf.Tensor], training: bool = False) -> Any:
        """Returns what the model returns."""

        def call(*ids: tf.Tensor) -> Any:
            return self._model(dict(zip(inputs, ids, strict=True)), training=training)

        return self._compiled(call, list(inputs.values()))

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
    """For each axis of each output: 0 if it has the length of the batch, n if of the n-th input's
    texts, None if its length is fixed. Two calls with other sizes tell.
    """
    small, large = (
        [2 + place + add * (place + 1) for place in range(inputs + 1)] for add in (0, 1)
    )
    shapes = [
        [
            output.shape
            for output in tf.nest.flatten(
                function(*(tf.ones((sizes[0], length), tf.int32) for length in sizes[1:]))
            )
        ]
        for sizes in (small, large)
    ]
    places = {pair: place for place, pair in enumerate(zip(small, large, strict=True))}
    return [
        [places.get(pair) for pair in zip(*both, strict=True)] for both in zip(*shapes, strict=True)
    ]


def _bucket(size: tf.Tensor, buckets: Sequence[int]) -> tf.Tensor:
    """The smallest bucket that holds `size`, or else a multiple of the largest."""
    fitting = tf.reduce_min([tf.where(bucket >= size, bucket, _NONE) for bucket in buckets])
    last = buckets[-1]
    return tf.where(size > last, (size + last - 1) // last * last, fitting)


def bucket_inputs(
    signature: ServingSignature, example: str, buckets: Buckets
) -> Iterator[dict[str, np.ndarray]]:
    """Inputs of the signature `token_ids` for every pair of sizes: the example's ids, repeated.

    A server that replays them compiles before it answers. An argument that is a list of texts gets
    one row of as many texts, because a model sees these as a batch.
    """
    alone = example_inputs(signature, example)[TOKEN_IDS]
    listed = any(len(spec.shape) == 2 for spec in signature.input_signature)
    for length in buckets.lengths:
        for batch in buckets.batches:
            inputs = {}
            for spec in signature.input_signature:
                texts = [1, batch] if len(spec.shape) == 2 else [1 if listed else batch]
                ids = np.resize(alone[f"{spec.name}_ids"].ravel(), [*texts, length])
                inputs[f"{spec.name}_ids"] = ids
                inputs[f"{spec.name}_lengths"] = np.full(texts, length, "int32")
            yield inputs
