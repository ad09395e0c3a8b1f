"""The base class of tokenizers with a vocabulary."""

import abc
from collections.abc import Sequence
from typing import Any, Final

import tensorflow as tf


class VocabularyTokenizer(abc.ABC):
    """Maps strings to vocabulary ids inside the graph: 0 is padding, 1 unknown, the rest tokens.

    The mask of real positions is `ids != VocabularyTokenizer.pad_id`.

    Args:
        vocabulary: the tokens by id, all different; the first two are `PADDING` and `UNKNOWN`.
        unknown_ids: number of ids U for tokens outside the vocabulary of V tokens. A hash of the
            token, the same in every process, chooses among id 1 and V … V + U − 2. So one word
            always has the same id, and two words share one with a probability of about 1/U.

    Raises:
        ValueError: if the vocabulary begins with other tokens, or holds a token twice, or
            `unknown_ids` is below 1.
    """

    PADDING: Final = "[PAD]"
    UNKNOWN: Final = "[UNK]"
    pad_id: Final = 0
    unknown_id: Final = 1

    def __init__(self, vocabulary: Sequence[str], unknown_ids: int = 1) -> None:
        if list(vocabulary[:2]) != [self.PADDING, self.UNKNOWN]:
            raise ValueError(
                f"vocabulary must begin with {self.PADDING} and {self.UNKNOWN}; "
                f"got {list(vocabulary[:2])}"
            )
        if len(set(vocabulary)) != len(vocabulary):
            raise ValueError("vocabulary must not have a token twice")
        if unknown_ids < 1:
            raise ValueError(f"unknown_ids must be at least 1; got {unknown_ids}")
        self.vocabulary = list(vocabulary)
        self.unknown_ids = unknown_ids
        # No text gives a special token but `UNKNOWN`: brackets are split off or removed.
        self._table = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(
                tf.constant(self.vocabulary, tf.string),
                tf.range(len(self.vocabulary), dtype=tf.int32),
            ),
            default_value=self.unknown_id,
        )

    @property
    def vocabulary_size(self) -> int:
        """Returns the number of ids."""
        return len(self.vocabulary) + self.unknown_ids - 1

    @property
    def resources(self) -> list[Any]:
        """Returns what a SavedModel must track for the tokenizer to work in it."""
        return [self._table]

    @abc.abstractmethod
    def split(self, strings: tf.Tensor) -> tf.RaggedTensor:
        """Splits strings (B,) into tokens, ragged strings (B, tokens)."""

    def ids(self, tokens: tf.RaggedTensor) -> tf.RaggedTensor:
        """Returns the int32 ids of the tokens."""
        return tf.ragged.map_flat_values(self.lookup, tokens)

    def lookup(self, tokens: tf.Tensor) -> tf.Tensor:
        """Returns the int32 ids of a tensor of strings, in the same shape."""
        ids = self._table.lookup(tokens)
        if self.unknown_ids == 1:
            return ids
        bucket = tf.cast(tf.strings.to_hash_bucket_fast(tokens, self.unknown_ids), tf.int32)
        hashed = tf.where(bucket == 0, self.unknown_id, len(self.vocabulary) - 1 + bucket)
        return tf.where(ids == self.unknown_id, hashed, ids)

    def tokenize(
        self, strings: tf.Tensor, max_length: int | None = None, *, length_multiple: int = 1
    ) -> tf.Tensor:
        """Encodes a batch of strings.

        Args:
            strings: string tensor (B,). Strings may be empty and need not be UTF-8; B may be 0.
            max_length: maximum number of ids; a longer string loses its tail. None keeps
                everything.
            length_multiple: pad to a multiple of this, so that few different shapes occur.

        Returns:
            int32 ids (B, L), padded with `pad_id`; L is at least `length_multiple`.
        """
        return self.pad(self.split(strings)[:, :max_length], length_multiple)[1]

    def pad(self, tokens: tf.RaggedTensor, length_multiple: int = 1) -> tuple[tf.Tensor, tf.Tensor]:
        """Pads tokens with "" and their ids as `tokenize` does; returns both, (B, L)."""
        longest = tf.reduce_max(tf.concat([[1], tf.cast(tokens.row_lengths(), tf.int32)], axis=0))
        length = -(-longest // length_multiple) * length_multiple
        return _filled(tokens, "", length), _filled(self.ids(tokens), self.pad_id, length)


def _filled(rows: tf.RaggedTensor, value: str | int, length: tf.Tensor) -> tf.Tensor:
    """Returns `rows` padded with `value` to (B, length); `length` is known only at run time."""
    dense = rows.to_tensor(value)
    missing = tf.fill(
        [tf.shape(dense)[0], length - tf.shape(dense)[1]], tf.constant(value, dense.dtype)
    )
    return tf.concat([dense, missing], axis=1)
