"""Tokenizes strings into words."""

from collections.abc import Sequence

import tensorflow as tf

from keras_quasiattn.text.cleaning import CLEANINGS
from keras_quasiattn.text.vocabulary_tokenizer import VocabularyTokenizer


class WordTokenizer(VocabularyTokenizer):
    """Cleans a string, splits it at spaces and looks up the words.

    Args:
        vocabulary: the words by id; see `VocabularyTokenizer`.
        cleaning: a name in `cleaning.CLEANINGS`: "questions", "treebank", "words", "pieces" or
            "cased_pieces".

    Raises:
        ValueError: if the cleaning is unknown, or the vocabulary unsuitable.

    >>> tokenizer = WordTokenizer(["[PAD]", "[UNK]", "who", "?"], cleaning="questions")
    >>> tokenizer.tokenize(tf.constant(["Who shot?", ""])).numpy().tolist()
    [[2, 1, 3], [0, 0, 0]]
    """

    def __init__(self, vocabulary: Sequence[str], cleaning: str = "words") -> None:
        super().__init__(vocabulary)
        if cleaning not in CLEANINGS:
            raise ValueError(f"cleaning must be one of {', '.join(CLEANINGS)}; got {cleaning!r}")
        self.cleaning = cleaning

    def split(self, strings: tf.Tensor) -> tf.RaggedTensor:
        """Splits strings (B,) into words, ragged strings (B, words)."""
        return tf.strings.split(CLEANINGS[self.cleaning](strings))
