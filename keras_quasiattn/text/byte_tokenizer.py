"""Tokenizes strings into bytes."""

from typing import Final

import tensorflow as tf
import tensorflow_text

from keras_quasiattn.text.sequence_ends import close

_NUM_SPECIAL = 2


class ByteTokenizer:
    """Turns strings into the ids of their bytes, and back without loss, whatever the bytes are.

    id = byte + 2, with 0 for padding and 1 for the end of the sequence: Tensor2Tensor's byte
    vocabulary. There is no table and no asset, so the tokenizer runs inside a `tf.function` or a
    SavedModel without further setup.

    The mask of real positions is `ids != ByteTokenizer.pad_id`; the end of the sequence is real.

    >>> tokenizer = ByteTokenizer()
    >>> ids = tokenizer.tokenize(tf.constant(["x=1", ""]))
    >>> ids.numpy().tolist()
    [[122, 63, 51, 1], [1, 0, 0, 0]]
    >>> tokenizer.detokenize(ids).numpy().tolist()
    [b'x=1', b'']

    Source: tensor2tensor, `data_generators/text_encoder.py` (`ByteTextEncoder`).
    """

    pad_id: Final = 0
    eos_id: Final = 1
    vocabulary_size: Final = 256 + _NUM_SPECIAL

    def __init__(self) -> None:
        self._splitter = tensorflow_text.ByteSplitter()

    def tokenize(
        self,
        strings: tf.Tensor,
        max_length: tf.Tensor | int | None = None,
        *,
        pad_to_max_length: bool = False,
    ) -> tf.Tensor:
        """Encodes a batch of strings.

        Args:
            strings: string tensor (B,). Strings may be empty and need not be UTF-8; B may be 0.
            max_length: maximum number of ids, including the end of the sequence; may be a scalar
                tensor. A longer string loses its tail and keeps the end id last. None keeps
                everything.
            pad_to_max_length: pad to `max_length` instead of the longest sequence of the batch, so
                that the shape never changes and XLA compiles once.

        Returns:
            int32 ids (B, L), each row closed by `eos_id` and padded with `pad_id`.

        Raises:
            ValueError: if `max_length` is less than 1, or is None with `pad_to_max_length`.
        """
        byte_values = self._splitter.split(
            tf.convert_to_tensor(strings, tf.string)
        )  # ragged uint8 (B, bytes)
        ids = tf.cast(byte_values, tf.int32) + _NUM_SPECIAL
        return close(
            ids,
            max_length,
            pad_to_max_length=pad_to_max_length,
            end_id=self.eos_id,
            padding_id=self.pad_id,
        )

    def detokenize(self, ids: tf.Tensor) -> tf.Tensor:
        """Decodes ids up to the first end of the sequence; skips padding and out-of-range ids.

        Args:
            ids: integer tensor (..., L).

        Returns:
            String tensor (...).
        """
        ids = tf.cast(ids, tf.int32)
        ended = tf.cumsum(tf.cast(ids == self.eos_id, tf.int32), axis=-1) > 0
        is_byte = (ids >= _NUM_SPECIAL) & (ids < self.vocabulary_size) & ~ended
        alphabet = tf.constant([bytes([value]) for value in range(256)])
        characters = tf.gather(alphabet, tf.where(is_byte, ids - _NUM_SPECIAL, 0))
        return tf.strings.reduce_join(tf.where(is_byte, characters, ""), axis=-1)
