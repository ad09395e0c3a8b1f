"""Turn examples into batches: streams that depend only on the seed and resume at any update."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds

ExamplesFrom = Callable[[int], tf.data.Dataset]
Encode = Callable[..., Any]

_POOL = 50  # batches sorted by length: a smaller pool mixes more, a larger one pads less


def split_reader(builder: tfds.core.DatasetBuilder, split: str) -> ExamplesFrom:
    """Return the `examples_from` of `training_batches` for a prepared TFDS split.

    TFDS opens the right file at the right record, so the last example is reached as fast as the
    first; `dataset.skip` would parse every example that it skips.
    """
    # TFDS's automatic cache would read from the first example.
    config = tfds.ReadConfig(try_autocache=False)

    def examples_from(start: int) -> tf.data.Dataset:
        instruction = tfds.core.ReadInstruction(split, from_=start, unit="abs")
        return builder.as_dataset(split=instruction, read_config=config)

    return examples_from


def training_batches(
    examples_from: ExamplesFrom,
    *,
    batch_size: int,
    seed: int,
    first_step: int,
    encode: Encode,
    shuffle_buffer: int,
    length_key: str | None = None,
) -> tf.data.Dataset:
    """Return endless shuffled batches that depend only on the seed and the number of the update.

    Starting at `first_step` gives the batches of an uninterrupted stream from that update on,
    without reading earlier passes or windows again: a killed run resumes as if it had not been
    interrupted. Examples that do not fill a batch at the end of a pass are dropped.

    Every pass cuts the examples into windows of `shuffle_buffer` and shuffles each with a key made
    from (seed, pass, window); `tf.data`'s own shuffle also depends on the global seed, and resumes
    only by replaying it. Windows do not mix, so the buffer should hold the whole set, or the set
    should be shuffled on disk. With `length_key`, which reduces padding, every 50 batches of
    shuffled examples are sorted by length, and the batches of the window are then shuffled.

    Args:
        examples_from: a function from an index to a dataset of the single examples from that index
            on, always in the same order and with known cardinality: `split_reader(builder, split)`,
            or `dataset.skip`.
        batch_size: examples per batch, over all replicas together.
        seed: determines the order of every pass.
        first_step: number of batches already used.
        encode: maps a batch of examples (with a first axis B) to the input of `fit`.
        shuffle_buffer: examples per window, held in memory.
        length_key: key of the examples' integer lengths; None ignores lengths. With it, the window
            must hold the whole set or a multiple of the batch size.

    Raises:
        ValueError: an argument is out of range, the cardinality is unknown, or the set is smaller
            than a batch.

    >>> examples = tf.data.Dataset.range(4)
    >>> settings = dict(batch_size=2, seed=1, encode=lambda batch: batch, shuffle_buffer=4)
    >>> whole = training_batches(examples.skip, first_step=0, **settings).take(5)
    >>> rest = training_batches(examples.skip, first_step=3, **settings).take(2)
    >>> [b.tolist() for b in rest.as_numpy_iterator()] == [
    ...     b.tolist() for b in whole.as_numpy_iterator()
    ... ][3:]
    True
    """
    _check_least(
        batch_size=(batch_size, 1), first_step=(first_step, 0), shuffle_buffer=(shuffle_buffer, 1)
    )
    examples = examples_from(0)
    num_examples = int(examples.cardinality())
    if num_examples < 0:
        raise ValueError(
            "examples must have a known, finite cardinality "
            f"(see tf.data.experimental.assert_cardinality); got {num_examples}"
        )
    if num_examples < batch_size:
        raise ValueError(
            f"examples must fill at least one batch of {batch_size}; got {num_examples}"
        )
    if length_key is not None and shuffle_buffer % batch_size and shuffle_buffer < num_examples:
        raise ValueError(
            f"shuffle_buffer must be a multiple of batch_size ({batch_size}) or at least "
            f"the number of examples ({num_examples}) when length_key is given; "
            f"got {shuffle_buffer}"
        )
    first_pass, used_batches = divmod(first_step, num_examples // batch_size)
    used_windows, used_of_window = divmod(used_batches * batch_size, shuffle_buffer)

    def shuffled(pass_number: tf.Tensor, windows: tf.data.Dataset) -> tf.data.Dataset:
        def shuffle(window: tf.Tensor, window_examples: Any) -> Any:
            size = tf.shape(tf.nest.flatten(window_examples)[0])[0]
            key = tf.random.fold_in(_key(seed, pass_number), window, alg="philox")
            order = _shuffle(tf.range(size), key)
            if length_key is not None:
                order = _by_length(order, window_examples[length_key], batch_size, key)
            return tf.nest.map_structure(lambda column: tf.gather(column, order), window_examples)

        return windows.map(shuffle).unbatch()

    def pass_batches(pass_number: tf.Tensor) -> tf.data.Dataset:
        windows = examples.batch(shuffle_buffer).enumerate()
        return shuffled(pass_number, windows).batch(batch_size, drop_remainder=True)

    rest_windows = (
        examples_from(used_windows * shuffle_buffer).batch(shuffle_buffer).enumerate(used_windows)
    )
    rest = shuffled(tf.constant(first_pass, tf.int64), rest_windows).skip(used_of_window)
    later = tf.data.Dataset.range(first_pass + 1, tf.int64.max).flat_map(pass_batches)
    return _encoded(rest.batch(batch_size, drop_remainder=True).concatenate(later), encode)


def evaluation_batches(
    examples: tf.data.Dataset, *, batch_size: int, encode: Encode
) -> tf.data.Dataset:
    """Return batches of all single examples, once and in order; the last batch may be smaller.

    `encode` is as for `training_batches`.

    >>> batches = evaluation_batches(
    ...     tf.data.Dataset.range(3), batch_size=2, encode=lambda batch: batch
    ... )
    >>> [batch.tolist() for batch in batches.as_numpy_iterator()]
    [[0, 1], [2]]
    """
    return _encoded(examples.batch(batch_size), encode)


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
    """Return endless shuffled batches with about as many tokens: many short texts or few long ones.

    As with `training_batches`, the stream depends only on the seed and the number of the update,
    and can be resumed at any update. An example's length is rounded up to L, a multiple of
    `length_multiple`, and a batch has `batch_tokens` // L examples, rounded down to a multiple of
    `row_multiple`, but at least `row_multiple`.

    Every pass uses every example once (except for fewer than `row_multiple`). Examples that do not
    fill a batch of length L join a batch of the next length, so every pass has the same shapes.

    Args:
        columns: the whole set in memory: object arrays of bytes, or numbers, by key.
        lengths: integers (examples,), the number of tokens of each example's longer side, as the
            encoder counts them.
        batch_tokens: tokens on one side of a batch, including padding; a longer example forms a
            batch alone.
        length_multiple: batch lengths are multiples of this; a larger value gives fewer shapes and
            more padding.
        seed: determines the order of every pass.
        first_step: number of batches already used.
        encode: maps a batch of examples and the scalar L to the input of `fit`, as the result of
            `sequence_pair_encoder` does.
        row_multiple: the number of examples in a batch is a multiple of this, so that replicas
            share it evenly. Defaults to 1.

    Raises:
        ValueError: an argument is out of range, or there are fewer than `row_multiple` examples.

    >>> columns = {"text": np.array([b"a", b"b c d e f", b"g h", b"i", b"j"], object)}
    >>> settings = dict(batch_tokens=6, length_multiple=3, seed=1, first_step=0)
    >>> encode = lambda batch, length: (tf.size(batch["text"]), length)
    >>> batches = token_batches(columns, np.array([1, 5, 2, 1, 1]), encode=encode, **settings)
    >>> sorted((int(size), int(length)) for size, length in batches.take(3))
    [(1, 6), (2, 3), (2, 3)]

    Source: tensor2tensor's `bucket_by_sequence_length`, which shuffles at random.
    """
    _check_least(first_step=(first_step, 0))
    padded = _padded(columns, lengths, batch_tokens, length_multiple, row_multiple)
    cuts = tf.constant(_cuts(padded, batch_tokens, row_multiple), tf.int64)  # (batches, 3)
    padded_lengths = tf.constant(padded)
    first_pass, used_batches = divmod(first_step, len(cuts))

    def pass_batches(pass_number: tf.Tensor) -> tf.data.Dataset:
        key = _key(seed, pass_number)
        shuffled = _shuffle(tf.range(len(lengths), dtype=tf.int64), key)
        # (examples,): sorted by padded length, shuffled within a length
        order = tf.gather(shuffled, tf.argsort(tf.gather(padded_lengths, shuffled), stable=True))
        pass_cuts = _shuffle(cuts, tf.random.fold_in(key, 1, alg="philox"))
        used = tf.where(pass_number == first_pass, used_batches, 0)
        return tf.data.Dataset.from_tensor_slices(pass_cuts[used:]).map(
            lambda cut: (order[cut[0] : cut[1]], cut[2])
        )

    batches = tf.data.Dataset.range(first_pass, tf.int64.max).flat_map(pass_batches)
    return _encoded(batches, _row_encoder(columns, encode))


def evaluation_token_batches(
    columns: Mapping[str, np.ndarray],
    lengths: np.ndarray,
    *,
    batch_tokens: int,
    length_multiple: int,
    encode: Encode,
    row_multiple: int = 1,
) -> tf.data.Dataset:
    """Return the batches of `token_batches` over one pass, short examples first.

    The shortest examples, fewer than `row_multiple`, are left out. Arguments and errors are as in
    `token_batches`.

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
    batches = tf.data.Dataset.from_tensor_slices(cuts).map(lambda c: (order[c[0] : c[1]], c[2]))
    return _encoded(batches, _row_encoder(columns, encode))


def fill_last_batch(order: np.ndarray, batch_size: int) -> tuple[np.ndarray, np.ndarray]:
    """Repeat rows with weight 0 to let replicas share every batch evenly.

    The other weights compensate for this: the weighted mean over all batches is the mean over the
    original rows.

    Args:
        order: int (rows,), the rows in their order, at least one.
        batch_size: examples per batch.

    Returns:
        The rows and their float32 weights, both of a length that `batch_size` divides.

    >>> fill_last_batch(np.array([1, 0, 2]), 2)
    (array([1, 0, 2, 1]), array([1.3333334, 1.3333334, 1.3333334, 0.       ], dtype=float32))
    """
    missing = -len(order) % batch_size
    weights = np.full(len(order), (len(order) + missing) / len(order), np.float32)
    filling = np.resize(order, missing)
    return np.concatenate([order, filling]), np.append(weights, np.zeros(missing, np.float32))


def sequence_pair_encoder(
    tokenize: Callable[..., tf.Tensor],
    *,
    source_key: str,
    target_key: str,
    start_id: int,
    pad_id: int = 0,
    source_length: int | None = None,
    target_length: int | None = None,
) -> Encode:
    """Return the `encode` of a sequence-to-sequence model trained with teacher forcing.

    With target ids y₀ … y_{T−1}, the decoder's input is start, y₀ … y_{T−2}: each position sees the
    ids before it. The start symbol is a real id (by convention the end-of-sequence id), not padding
    as in Tensor2Tensor, so that `ids != pad_id` is the mask of both source and target.

    Args:
        tokenize: called as `tokenize(strings, max_length, pad_to_max_length=...)`, like
            `ByteTokenizer.tokenize`.
        source_key: key of the source strings in a batch of examples.
        target_key: key of the target strings.
        start_id: the decoder's first input.
        pad_id: the id that `tokenize` pads with. Defaults to 0.
        source_length: number of ids to which every source is cut and padded, so that XLA compiles
            only once; None pads to the longest source in the batch.
        target_length: the same for targets.

    Returns:
        A function of a batch of examples and, optionally, one length for both sides (as
        `token_batches` passes it). It returns (x, y, sample_weight): x = {"source": int32 (B, S),
        "target": int32 (B, T)}, y int32 (B, T), sample_weight float32 (B, T), 1 where y is not
        padding and 0 elsewhere.

    Raises:
        ValueError: `start_id` equals `pad_id`.
    """
    if start_id == pad_id:
        raise ValueError(
            f"start_id must differ from pad_id, or the mask hides it; got {start_id} for both"
        )

    def encode(
        examples: dict[str, tf.Tensor], length: tf.Tensor | None = None
    ) -> tuple[dict[str, tf.Tensor], tf.Tensor, tf.Tensor]:
        limits = (source_length, target_length) if length is None else (length, length)
        source, target = (
            tokenize(examples[key], limit, pad_to_max_length=limit is not None)
            for key, limit in zip((source_key, target_key), limits, strict=True)
        )
        is_real = target != pad_id  # (B, T)
        shifted = tf.concat([tf.fill([tf.shape(target)[0], 1], start_id), target[:, :-1]], axis=1)
        # After the shift, the end symbol is at a padded position: replace it with padding.
        decoder_input = tf.where(is_real, shifted, pad_id)
        return {"source": source, "target": decoder_input}, target, tf.cast(is_real, tf.float32)

    return encode


def _check_least(**values: tuple[int, int]) -> None:
    """Raise a `ValueError` for a value below its limit; each argument is (value, limit)."""
    for name, (value, least) in values.items():
        if value < least:
            raise ValueError(f"{name} must be at least {least}; got {value}")


def _key(seed: int, pass_number: tf.Tensor) -> tf.Tensor:
    return tf.stack([tf.constant(seed, tf.int64), pass_number])


def _shuffle(rows: tf.Tensor, key: tf.Tensor) -> tf.Tensor:
    # A fixed algorithm, because "auto_select" may choose differently on another machine.
    return tf.random.experimental.stateless_shuffle(rows, seed=key, alg="philox")


def _by_length(order: tf.Tensor, lengths: tf.Tensor, batch_size: int, key: tf.Tensor) -> tf.Tensor:
    """Reorder shuffled indices so that each batch has similar lengths; leftovers stay last."""
    # order: (window,) indices; lengths: (window,), not yet shuffled
    batches = tf.size(order) // batch_size
    whole, rest = order[: batches * batch_size], order[batches * batch_size :]
    lengths = tf.cast(tf.gather(lengths, whole), tf.int64)
    pools = tf.cast(tf.range(tf.size(whole)) // (_POOL * batch_size), tf.int64)
    # Sort by pool, then by length within a pool.
    sorting = tf.argsort(pools * (tf.reduce_max(lengths) + 1) + lengths, stable=True)
    rows = tf.reshape(tf.gather(whole, sorting), (-1, batch_size))  # (batches, batch_size)
    rows = _shuffle(rows, tf.random.fold_in(key, batches, alg="philox"))
    return tf.concat([tf.reshape(rows, (-1,)), rest], axis=0)


def _encoded(batches: tf.data.Dataset, encode: Encode) -> tf.data.Dataset:
    """Encode batches in advance and in order, for one worker or several."""
    options = tf.data.Options()
    options.deterministic = True
    # DATA splits one stream among the workers; splitting by file would change the stream.
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    return untuned(
        batches.map(encode, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
        .prefetch(tf.data.AUTOTUNE)
        .with_options(options)
    )


def untuned(batches: tf.data.Dataset) -> tf.data.Dataset:
    """Return the same batches without TensorFlow's thread for tuning a stream while it is read.

    Dropping an iterator waits for this thread, which sleeps up to a minute between its
    measurements. TensorFlow 2.21 wakes it before setting the flag that the thread checks, so on a
    busy machine the thread goes back to sleep, and dropping the iterator blocks.
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    return batches.with_options(options)


def _row_encoder(columns: Mapping[str, np.ndarray], encode: Encode) -> Encode:
    """Return a function that gathers given rows and encodes them to their length."""
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
    """Check the arguments and return the length that each example is padded to."""
    _check_least(
        **{
            "batch_tokens": (batch_tokens, 1),
            "length_multiple": (length_multiple, 1),
            "row_multiple": (row_multiple, 1),
            "the number of examples": (len(lengths), row_multiple),
            "every length": (int(np.min(lengths, initial=1)), 1),
        }
    )
    for key, column in columns.items():
        if len(column) != len(lengths):
            raise ValueError(
                f"lengths must have one entry for each of the {len(column)} examples in {key!r}; "
                f"got {len(lengths)}"
            )
    return -(-np.asarray(lengths, np.int64) // length_multiple) * length_multiple


def _cuts(padded: np.ndarray, batch_tokens: int, row_multiple: int) -> list[tuple[int, int, int]]:
    """Return begin, end and length of every batch of examples sorted by padded length."""
    # Only short examples are left out, different ones in each pass because of shuffling.
    cuts, begin = [], len(padded) % row_multiple
    lengths, counts = np.unique(padded, return_counts=True)
    for length, end in zip(lengths.tolist(), np.cumsum(counts).tolist(), strict=True):
        rows = max(batch_tokens // length // row_multiple, 1) * row_multiple
        while end - begin >= rows:
            cuts.append((begin, begin + rows, length))
            begin += rows
    return cuts if begin == len(padded) else [*cuts, (begin, len(padded), length)]
