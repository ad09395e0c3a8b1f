"""Turns examples into batches: the same stream for the same seed, resumable at any step."""

import contextlib
import fcntl
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import requests
import tensorflow as tf
import tensorflow_datasets as tfds

from keras_quasiattn.data.downloads import require_network
from keras_quasiattn.errors import UserError

ExamplesFrom = Callable[[int], tf.data.Dataset]
Encode = Callable[..., Any]
Tokenize = Callable[..., tf.Tensor]

_POOL = 50  # batches sorted by length together: a smaller pool mixes more, a larger one pads less


def prepare(
    make_builder: Callable[[], tfds.core.DatasetBuilder], data_dir: str | Path
) -> tfds.core.DatasetBuilder:
    """Writes a TFDS builder's data if they are missing, completely or not at all.

    If several processes need the same data at once, one of them writes and the others wait.

    Args:
        make_builder: Makes the builder. It is called again once no other process is writing,
            because a builder reads what is on disk when it is made.
        data_dir: The folder in which the builder keeps its data.

    Returns:
        The builder, with its data prepared.

    Raises:
        UserError: If the folder cannot be written, the disk is full, or the data cannot be
            downloaded.
    """
    try:
        if (builder := make_builder()).is_prepared():  # works in a read-only folder too
            return builder
        Path(data_dir).mkdir(parents=True, exist_ok=True)
        with open(Path(data_dir) / ".lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # released when the file closes or the process ends
            builder = make_builder()
            require_network(builder)
            tfds.disable_progress_bar()
            # TFDS would print that all sizes are unknown.
            with contextlib.redirect_stdout(io.StringIO()):
                builder.download_and_prepare()
    except requests.RequestException as error:  # a kind of OSError
        raise UserError(f"cannot download {builder.name}: {str(error).splitlines()[0]}") from error
    except (OSError, tf.errors.OpError) as error:
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise UserError(f"cannot write the data to {data_dir}: {reason}") from error
    return builder


def split_reader(builder: tfds.core.DatasetBuilder, split: str) -> ExamplesFrom:
    """Makes the `examples_from` of `training_batches` for a prepared TFDS split.

    TFDS opens the right file at the right record, so the last example is reached as fast as the
    first. `dataset.skip` would parse every example that it skips.

    Args:
        builder: A builder whose data are prepared.
        split: Name of the split.

    Returns:
        A function from the index of the first wanted example to a dataset that starts there.
    """
    # TFDS's automatic cache would read from the first example on.
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
    """Endless shuffled batches that depend only on the seed and the step number.

    Starting at `first_step` gives exactly the batches that an uninterrupted stream gives from that
    step on, so a run that was killed resumes as if nothing had happened. Earlier epochs are not
    read, and neither are the windows of the current epoch that are already used up.

    Every epoch cuts the examples into windows of `shuffle_buffer` and shuffles each window with a
    key made from (seed, epoch, window). `tf.data`'s own shuffle is not used: its order also depends
    on the global seed, and it can be resumed only by replaying it. Examples are never shuffled
    across windows, so let the buffer hold the whole set, or let the set be shuffled on disk.

    With `length_key`, examples of similar length share a batch, so that little of it is padding. Of
    every `_POOL` batches of shuffled examples, the shortest examples form one batch, the next
    longer ones the next batch, and so on. Then the batches of the window are shuffled.

    At the end of an epoch, examples that do not fill a batch are dropped.

    Args:
        examples_from: Called with an index, returns a dataset of the single examples from that
            index on, always in the same order and with known cardinality:
            `split_reader(builder, split)`, or `dataset.skip`.
        batch_size: Examples per batch, over all replicas together.
        seed: Determines the order of every epoch.
        first_step: Number of batches already used.
        encode: Maps a batch of examples (their structure with a first axis B) to what the model's
            `fit` takes.
        shuffle_buffer: Examples per window, held in memory.
        length_key: Key of the examples' integer lengths; None ignores lengths. With it, the window
            must hold the whole set or a multiple of the batch size.

    Returns:
        An infinite dataset of encoded batches.

    Raises:
        ValueError: If an argument is out of range, the cardinality is unknown, or the set is
            smaller than a batch.

    >>> examples = tf.data.Dataset.range(4)
    >>> settings = dict(batch_size=2, seed=1, encode=lambda batch: batch, shuffle_buffer=4)
    >>> whole = training_batches(examples.skip, first_step=0, **settings).take(5)
    >>> rest = training_batches(examples.skip, first_step=3, **settings).take(2)
    >>> [b.tolist() for b in rest.as_numpy_iterator()] == [
    ...     b.tolist() for b in whole.as_numpy_iterator()
    ... ][3:]
    True
    """
    for name, value, least in [
        ("batch_size", batch_size, 1),
        ("first_step", first_step, 0),
        ("shuffle_buffer", shuffle_buffer, 1),
    ]:
        if value < least:
            raise ValueError(f"{name} must be at least {least}; got {value}")
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
    first_epoch, used_batches = divmod(first_step, num_examples // batch_size)
    used_windows, used_of_window = divmod(used_batches * batch_size, shuffle_buffer)

    def epoch_examples(epoch: tf.Tensor, windows: tf.data.Dataset) -> tf.data.Dataset:
        def shuffle(window: tf.Tensor, window_examples: Any) -> Any:
            size = tf.shape(tf.nest.flatten(window_examples)[0])[0]
            # A fixed algorithm: "auto_select" may choose another one on another machine.
            key = tf.stack([tf.constant(seed, tf.int64), epoch])
            key = tf.random.fold_in(key, window, alg="philox")
            order = tf.random.experimental.stateless_shuffle(tf.range(size), seed=key, alg="philox")
            if length_key is not None:
                order = _by_length(order, window_examples[length_key], batch_size, key)
            return tf.nest.map_structure(lambda column: tf.gather(column, order), window_examples)

        return windows.map(shuffle).unbatch()

    def epoch_batches(epoch: tf.Tensor) -> tf.data.Dataset:
        windows = examples.batch(shuffle_buffer).enumerate()
        return epoch_examples(epoch, windows).batch(batch_size, drop_remainder=True)

    rest_windows = (
        examples_from(used_windows * shuffle_buffer).batch(shuffle_buffer).enumerate(used_windows)
    )
    rest_of_epoch = epoch_examples(tf.constant(first_epoch, tf.int64), rest_windows).skip(
        used_of_window
    )
    later_epochs = tf.data.Dataset.range(first_epoch + 1, tf.int64.max).flat_map(epoch_batches)

    return encoded_stream(
        rest_of_epoch.batch(batch_size, drop_remainder=True).concatenate(later_epochs), encode
    )


def encoded_stream(batches: tf.data.Dataset, encode: Encode) -> tf.data.Dataset:
    """Encodes batches ahead of their use and in order, for one worker or several."""
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
    """The same batches, without TensorFlow's thread that tunes a stream while it is read.

    Dropping an iterator waits for this thread, which sleeps up to a minute between its
    measurements. TensorFlow 2.21 wakes it before it sets the mark that the thread then looks for,
    so on a busy machine the thread sleeps on, and so does whoever dropped the iterator.
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    return batches.with_options(options)


def _by_length(order: tf.Tensor, lengths: tf.Tensor, batch_size: int, key: tf.Tensor) -> tf.Tensor:
    """Reorders shuffled indices so that each batch has similar lengths; leftovers stay last."""
    # order: (window,) indices; lengths: (window,), not yet shuffled
    batches = tf.size(order) // batch_size
    whole, rest = order[: batches * batch_size], order[batches * batch_size :]
    lengths = tf.cast(tf.gather(lengths, whole), tf.int64)
    pools = tf.cast(tf.range(tf.size(whole)) // (_POOL * batch_size), tf.int64)
    # Sorts by pool, then by length within a pool.
    sorting = tf.argsort(pools * (tf.reduce_max(lengths) + 1) + lengths, stable=True)
    rows = tf.reshape(tf.gather(whole, sorting), (-1, batch_size))  # (batches, batch_size)
    batch_key = tf.random.fold_in(key, batches, alg="philox")
    rows = tf.random.experimental.stateless_shuffle(rows, seed=batch_key, alg="philox")
    return tf.concat([tf.reshape(rows, (-1,)), rest], axis=0)


def evaluation_batches(
    examples: tf.data.Dataset, *, batch_size: int, encode: Encode
) -> tf.data.Dataset:
    """Every example once and in order; the last batch may be smaller.

    Args:
        examples: Single examples.
        batch_size: Examples per batch.
        encode: As for `training_batches`.

    Returns:
        A finite dataset of encoded batches.

    >>> batches = evaluation_batches(
    ...     tf.data.Dataset.range(3), batch_size=2, encode=lambda batch: batch
    ... )
    >>> [batch.tolist() for batch in batches.as_numpy_iterator()]
    [[0, 1], [2]]
    """
    return untuned(
        examples.batch(batch_size)
        .map(encode, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
        .prefetch(tf.data.AUTOTUNE)
    )


def fill_last_batch(order: np.ndarray, batch_size: int) -> tuple[np.ndarray, np.ndarray]:
    """Repeats rows, so that replicas share every batch evenly, and weights them with zero.

    The other weights make up for it: with them, a mean over the examples of all batches is the mean
    over the rows that are not repeated.

    Args:
        order: int (rows,), the rows in their order, at least one.
        batch_size: Examples per batch.

    Returns:
        The rows and their weights, float32, both of a length that `batch_size` divides.

    >>> fill_last_batch(np.array([1, 0, 2]), 2)
    (array([1, 0, 2, 1]), array([1.3333334, 1.3333334, 1.3333334, 0.       ], dtype=float32))
    """
    missing = -len(order) % batch_size
    weights = np.full(len(order), (len(order) + missing) / len(order), np.float32)
    filling = np.resize(order, missing)
    return np.concatenate([order, filling]), np.append(weights, np.zeros(missing, np.float32))


def sequence_pair_encoder(
    tokenize: Tokenize,
    *,
    source_key: str,
    target_key: str,
    start_id: int,
    pad_id: int = 0,
    source_length: int | None = None,
    target_length: int | None = None,
) -> Encode:
    """Makes the `encode` of a sequence-to-sequence model trained with teacher forcing.

    With target ids y₀ … y_{T−1}, the decoder's input is start, y₀ … y_{T−2}: each step sees the ids
    before it. The start symbol is a real id (by convention the end-of-sequence id), not padding as
    in Tensor2Tensor, so that `ids != pad_id` is the mask of both source and target.

    Args:
        tokenize: Called as `tokenize(strings, max_length, pad_to_max_length=...)`, like
            `ByteTokenizer`.
        source_key: Key of the source strings in a batch of examples.
        target_key: Key of the target strings.
        start_id: The decoder's first input.
        pad_id: The id that `tokenize` pads with.
        source_length: Cut and pad every source to this many ids, so that XLA compiles only once;
            None pads to the longest source in the batch.
        target_length: The same for targets.

    Returns:
        A function of a batch of examples and, optionally, one length for both sides (as
        `token_batches` passes it). It returns (x, y, sample_weight): x = {"source": int32 (B, S),
        "target": int32 (B, T)}, y int32 (B, T), sample_weight float32 (B, T), 1 where y is not
        padding and 0 elsewhere.

    Raises:
        ValueError: If `start_id` equals `pad_id`.
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
