"""Tokenizes strings into words."""

from collections.abc import Sequence

import tensorflow as tf

from keras_quasiattn.text.cleaning import CLEANINGS, TEXT_VERSION
from keras_quasiattn.text.vocabulary_tokenizer import VocabularyTokenizer


class WordTokenizer(VocabularyTokenizer):
    """Cleans a string, splits it at spaces and looks up the words.

    Args:
        vocabulary: the words by id; see `VocabularyTokenizer`.
        cleaning: a name in `cleaning.CLEANINGS`: "questions", "treebank", "words", "pieces" or
            "cased_pieces".
        unknown_ids: number of ids for other words; see `VocabularyTokenizer`.
        text_version: version of the cleaning, of which older runs record none and have 1.

    Raises:
        ValueError: if the cleaning is unknown, or the vocabulary or `unknown_ids` unsuitable.

    >>> tokenizer = WordTokenizer(["[PAD]", "[UNK]", "who", "?"], cleaning="questions")
    >>> tokenizer.tokenize(tf.constant(["Who shot?", ""])).numpy().tolist()
    [[2, 1, 3], [0, 0, 0]]
    """

    def __init__(
        self,
        vocabulary: Sequence[str],
        cleaning: str = "words",
        unknown_ids: int = 1,
        text_version: int = TEXT_VERSION,
    ) -> None:
        super().__init__(vocabulary, unknown_ids)
        if cleaning not in CLEANINGS:
            raise ValueError(f"cleaning must be one of {', '.join(CLEANINGS)}; got {cleaning!r}")
        self.cleaning = cleaning
        self.text_version = text_version

    def split(self, strings: tf.Tensor) -> tf.RaggedTensor:
        """Splits strings (B,) into words, ragged strings (B, words)."""
        return tf.strings.split(CLEANINGS[self.cleaning](strings, self.text_version))
