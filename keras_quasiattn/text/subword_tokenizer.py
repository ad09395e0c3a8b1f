"""Tokenizes strings into WordPiece subwords."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf
import tensorflow_text

from keras_quasiattn.text.cleaning import TEXT_VERSION, apostrophes
from keras_quasiattn.text.vocabulary_tokenizer import VocabularyTokenizer


class SubwordTokenizer(VocabularyTokenizer):
    """WordPiece: lower-cased words and punctuation are cut greedily into the longest known pieces.

    Accents are removed. A piece inside a word begins with "##". A word that cannot be cut into
    known pieces is unknown as a whole.

    Args:
        vocabulary: the pieces by id; see `VocabularyTokenizer` and `vocabulary.learn_subwords`.
        text_version: version of the text processing, of which older runs record none and have 1.

    >>> tokenizer = SubwordTokenizer(["[PAD]", "[UNK]", "un", "##seen", "!"])
    >>> tokenizer.tokenize(tf.constant(["Unseen!", "\u00e9t\u00e9"])).numpy().tolist()
    [[2, 3, 4], [1, 0, 0]]

    Source: tensorflow-text's `FastBertTokenizer`; Schuster and Nakajima 2012.
    """

    def __init__(self, vocabulary: Sequence[str], text_version: int = TEXT_VERSION) -> None:
        super().__init__(vocabulary)
        self.text_version = text_version
        self._pieces = tensorflow_text.FastBertTokenizer(
            vocab=self.vocabulary,
            token_out_type=tf.string,
            unknown_token=self.UNKNOWN,
            lower_case_nfd_strip_accents=True,
        )

    @property
    def resources(self) -> list[Any]:
        """Returns the WordPiece splitter and the table of the pieces' ids."""
        return [self._pieces, *super().resources]

    def split(self, strings: tf.Tensor) -> tf.RaggedTensor:
        """Splits strings (B,) into pieces, ragged strings (B, pieces)."""
        return self._pieces.tokenize(apostrophes(strings, self.text_version))
