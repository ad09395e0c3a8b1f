"""Adds the end id to sequences of ids and pads them."""

import tensorflow as tf


def close(
    ids: tf.RaggedTensor,
    max_length: tf.Tensor | int | None,
    *,
    pad_to_max_length: bool,
    end_id: int,
    padding_id: int,
) -> tf.Tensor:
    """Adds the end id to each row of a tokenizer's ids, and pads the rows.

    Args:
        ids: ragged int32 (B, L).
        max_length: maximum number of ids, including the end; may be a scalar tensor that is known
            only at run time. A longer row loses its tail. None keeps everything.
        pad_to_max_length: pad to `max_length` instead of the longest row.
        end_id: the id that ends every row.
        padding_id: the id that fills the rest of a row.

    Returns:
        int32 (B, L).

    Raises:
        ValueError: if `max_length` is less than 1, or is None with `pad_to_max_length`.

    >>> close(
    ...     tf.ragged.constant([[7, 8], []]), 2, pad_to_max_length=True, end_id=1, padding_id=0
    ... ).numpy().tolist()
    [[7, 1], [1, 0]]
    """
    if isinstance(max_length, int) and max_length < 1:
        raise ValueError(
            f"max_length must be at least 1, to hold the end of the sequence; got {max_length}"
        )
    if pad_to_max_length and max_length is None:
        raise ValueError("pad_to_max_length needs a max_length; got None")
    if max_length is not None:
        ids = ids[:, : max_length - 1]
    ids = tf.concat([ids, tf.fill([ids.nrows(), 1], end_id)], axis=1)
    if not pad_to_max_length:
        return ids.to_tensor(padding_id)
    if isinstance(max_length, int):
        return ids.to_tensor(padding_id, shape=(None, max_length))
    return ids.to_tensor(padding_id, shape=tf.stack([-1, max_length]))
