"""Batches with about the same number of tokens and few different shapes."""

from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from keras_quasiattn.data.pipeline import Encode, encoded_stream


def token_batches(
    columns: Mapping[str, np.ndarray],
    lengths: np.ndarray,
    *,
    batch_tokens: int,
    length_multiple: int,
    seed: int,
    first_step: int,
    encode: Encode,
    row_multiple: int = 1,
) -> tf.data.Dataset:
    """Endless shuffled batches of examples of similar length: many short ones or few long ones.

    As with `training_batches`, the stream depends only on the seed and the step number, and
    starting at `first_step` gives exactly the batches that an uninterrupted stream gives from
    there. There a batch has a fixed number of examples, here of tokens: an example's length is
    rounded up to L, a multiple of `length_multiple`, and a batch has `batch_tokens` // L examples,
    rounded down to a multiple of `row_multiple`, but at least `row_multiple`.

    Every epoch uses every example once (except for fewer than `row_multiple`). Examples that do not
    fill a batch of length L go into a batch of the next length. So no length is left out, and every
    epoch has batches of the same shapes: one shape for each L, and a smaller last batch.

    Args:
        columns: the examples' columns by key: object arrays of bytes, or numbers; the whole set,
            held in memory.
        lengths: integers (examples,), the number of tokens of each example's longer side, as the
            encoder counts them.
        batch_tokens: tokens on one side of a batch, padding included; a longer example makes a
            batch of its own.
        length_multiple: batch lengths are multiples of this; a larger value gives fewer shapes and
            more padding.
        seed: determines the order of every epoch.
        first_step: number of batches already used.
        encode: called with a batch of examples and the scalar L, returns what `fit` takes, as the
            result of `sequence_pair_encoder` does.
        row_multiple: the number of examples in a batch is a multiple of this, so that replicas
            share it evenly.

    Returns:
        An infinite dataset of encoded batches.

    Raises:
        ValueError: an argument is out of range, or there are fewer than `row_multiple` examples.

    >>> columns = {"text": np.array([b"a", b"b c d e f", b"g h", b"i", b"j"], object)}
    >>> settings = dict(batch_tokens=6, length_multiple=3, seed=1, first_step=0)
    >>> encode = lambda batch, length: (tf.size(batch["text"]), length)
    >>> batches = token_batches(columns, np.array([1, 5, 2, 1, 1]), encode=encode, **settings)
    >>> sorted((int(size), int(length)) for size, length in batches.take(3))
    [(1, 6), (2, 3), (2, 3)]

    Source: tensor2tensor, `utils/data_reader.py` (`bucket_by_sequence_length`), which shuffles at
    random.
    """
    if first_step < 0:
        raise ValueError(f"first_step must be at least 0; got {first_step}")
    padded = _padded(columns, lengths, batch_tokens, length_multiple, row_multiple)
    cuts = tf.constant(_cuts(padded, batch_tokens, row_multiple), tf.int64)  # (batches, 3)
    by_example = tf.constant(padded)
    first_epoch, used_batches = divmod(first_step, len(cuts))

    def epoch_batches(epoch: tf.Tensor) -> tf.data.Dataset:
        # A fixed algorithm: "auto_select" may choose another one on another machine.
        key = tf.stack([tf.constant(seed, tf.int64), epoch])
        shuffled = tf.random.experimental.stateless_shuffle(
            tf.range(len(lengths), dtype=tf.int64), seed=key, alg="philox"
        )
        # (examples,): sorted by padded length, shuffled within a length
        order = tf.gather(shuffled, tf.argsort(tf.gather(by_example, shuffled), stable=True))
        batch_key = tf.random.fold_in(key, 1, alg="philox")
        epoch_cuts = tf.random.experimental.stateless_shuffle(cuts, seed=batch_key, alg="philox")
        used = tf.where(epoch == first_epoch, used_batches, 0)
        return tf.data.Dataset.from_tensor_slices(epoch_cuts[used:]).map(
            lambda cut: (order[cut[0] : cut[1]], cut[2])
        )

    batches = tf.data.Dataset.range(first_epoch, tf.int64.max).flat_map(epoch_batches)
    return encoded_stream(batches, _row_encoder(columns, encode))


def evaluation_token_batches(
    columns: Mapping[str, np.ndarray],
    lengths: np.ndarray,
    *,
    batch_tokens: int,
    length_multiple: int,
    encode: Encode,
    row_multiple: int = 1,
) -> tf.data.Dataset:
    """Every example once (except for fewer than `row_multiple`), batched as by `token_batches`.

    Short examples come first. The examples left out are the shortest.

    Args:
        columns: as for `token_batches`, like the other arguments.
        lengths: integers (examples,).
        batch_tokens: tokens on one side of a batch, padding included.
        length_multiple: batch lengths are multiples of this.
        encode: called with a batch of examples and the scalar L.
        row_multiple: the number of examples in a batch is a multiple of this.

    Returns:
        A finite dataset of encoded batches.

    Raises:
        ValueError: as for `token_batches`.

    >>> columns = {"text": np.array([b"a", b"b c d e f", b"g h"], object)}
    >>> settings = dict(
    ...     batch_tokens=6, length_multiple=3, encode=lambda batch, length: batch["text"]
    ... )
    >>> batches = evaluation_token_batches(columns, np.array([1, 5, 2]), **settings)
    >>> [batch.numpy().tolist() for batch in batches]
    [[b'a', b'g h'], [b'b c d e f']]
    """
    padded = _padded(columns, lengths, batch_tokens, length_multiple, row_multiple)
    order = tf.constant(np.argsort(padded, kind="stable"))
    cuts = tf.constant(_cuts(padded, batch_tokens, row_multiple), tf.int64)
    batches = tf.data.Dataset.from_tensor_slices(cuts).map(
        lambda cut: (order[cut[0] : cut[1]], cut[2])
    )
    return encoded_stream(batches, _row_encoder(columns, encode))


def _row_encoder(columns: Mapping[str, np.ndarray], encode: Encode) -> Encode:
    """Makes a function that gathers the examples of these rows and encodes them to their length."""
    values = {key: tf.constant(column.tolist()) for key, column in columns.items()}

    def encode_rows(rows: tf.Tensor, length: tf.Tensor) -> tf.Tensor:
        examples = {key: tf.gather(column, rows) for key, column in values.items()}
        return encode(examples, tf.cast(length, tf.int32))

    return encode_rows


def _padded(
    columns: Mapping[str, np.ndarray],
    lengths: np.ndarray,
    batch_tokens: int,
    length_multiple: int,
    row_multiple: int,
) -> np.ndarray:
    """Checks the arguments and returns the length that each example is padded to."""
    for name, value, least in [
        ("batch_tokens", batch_tokens, 1),
        ("length_multiple", length_multiple, 1),
        ("row_multiple", row_multiple, 1),
        ("the number of examples", len(lengths), row_multiple),
        ("every length", int(np.min(lengths, initial=1)), 1),
    ]:
        if value < least:
            raise ValueError(f"{name} must be at least {least}; got {value}")
    for key, column in columns.items():
        if len(column) != len(lengths):
            raise ValueError(
                f"lengths must have one entry for each of the {len(column)} examples in {key!r}; "
                f"got {len(lengths)}"
            )
    return -(-np.asarray(lengths, np.int64) // length_multiple) * length_multiple


def _cuts(padded: np.ndarray, batch_tokens: int, row_multiple: int) -> list[tuple[int, int, int]]:
    """Begin, end and length of every batch; examples are sorted by padded length."""
    # Only short examples are left out; shuffling changes which ones in each epoch.
    cuts, begin = [], len(padded) % row_multiple
    lengths, counts = np.unique(padded, return_counts=True)
    for length, end in zip(lengths.tolist(), np.cumsum(counts).tolist(), strict=True):
        rows = max(batch_tokens // length // row_multiple, 1) * row_multiple
        while end - begin >= rows:
            cuts.append((begin, begin + rows, length))
            begin += rows
    return cuts if begin == len(padded) else [*cuts, (begin, len(padded), length)]
