"""Tokenizes strings into words with their byte positions."""

from collections.abc import Sequence
from typing import Final

import tensorflow as tf
import tensorflow_text as tf_text

from keras_quasiattn.text.cleaning import APOSTROPHES, PIECE, SPACE, TEXT_VERSION, apostrophes
from keras_quasiattn.text.vocabulary_tokenizer import VocabularyTokenizer

SPAN_CLEANINGS: Final = ("pieces", "cased_pieces")


class SpanTokenizer(VocabularyTokenizer):
    """Splits a string into runs of letters and digits and single other characters, with positions.

    The words are those of the cleaning of the same name. The string itself is not changed, so the
    positions refer to it.

    Args:
        vocabulary: the words by id; see `VocabularyTokenizer`.
        cleaning: "pieces", whose words are in lower case, or "cased_pieces".
        unknown_ids: number of ids for other words; see `VocabularyTokenizer`.
        text_version: version of the cleaning, of which older runs record none and have 1.

    Raises:
        ValueError: if the cleaning is unknown, or the vocabulary or `unknown_ids` unsuitable.

    >>> tokenizer = SpanTokenizer(["[PAD]", "[UNK]", "who", "?"])
    >>> tokens, starts, ends = tokenizer.split_with_offsets(tf.constant(["Qui vécut? "]))
    >>> tokens.to_list()[0][1].decode(), starts.to_list(), ends.to_list()
    ('vécut', [[0, 4, 10]], [[3, 10, 11]])
    """

    def __init__(
        self,
        vocabulary: Sequence[str],
        cleaning: str = "pieces",
        unknown_ids: int = 1,
        text_version: int = TEXT_VERSION,
    ) -> None:
        super().__init__(vocabulary, unknown_ids)
        if cleaning not in SPAN_CLEANINGS:
            raise ValueError(
                f"cleaning must be one of {', '.join(SPAN_CLEANINGS)}; got {cleaning!r}"
            )
        self.cleaning = cleaning
        self.text_version = text_version

    def split_with_offsets(
        self, strings: tf.Tensor
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """Splits strings (B,) into words, starts and ends, each ragged (B, words).

        Starts and ends are int64 byte positions. A word is `string[start:end]`, which "pieces"
        turns into lower case, or the apostrophe for which another sign stands there.
        """
        piece = PIECE if self.text_version == 1 else f"{PIECE}|{APOSTROPHES}"
        tokens, starts, ends = tf_text.regex_split_with_offsets(strings, f"{SPACE}+|{piece}", piece)
        words = apostrophes(tokens.flat_values, self.text_version)
        if self.cleaning == "pieces":
            words = tf.strings.lower(words, encoding="utf-8")
        return tokens.with_flat_values(words), starts, ends

    def split(self, strings: tf.Tensor) -> tf.RaggedTensor:
        """Splits strings (B,) into words, ragged strings (B, words)."""
        return self.split_with_offsets(strings)[0]
