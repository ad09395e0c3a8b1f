"""Words as tokens, with the place of each in the string."""

from collections.abc import Sequence
from typing import Final

import tensorflow as tf
import tensorflow_text as tf_text

from keras_quasiattn.text.cleaning import PIECE, SPACE
from keras_quasiattn.text.vocabulary_tokenizer import VocabularyTokenizer

SPAN_CLEANINGS: Final = ("pieces", "cased_pieces")


class SpanTokenizer(VocabularyTokenizer):
    """Parts a string into runs of letters and digits and single other characters, and tells where each stands.

    The words are those of the cleaning of the same name; the string itself is left as it is, so that the places point
    into it.

    Args:
        vocabulary: the words by id; see `VocabularyTokenizer`.
        cleaning: "pieces", whose words are in lower case, or "cased_pieces".

    Raises:
        ValueError: an unknown cleaning, or an unsuitable vocabulary.

    >>> tokenizer = SpanTokenizer(["[PAD]", "[UNK]", "who", "?"])
    >>> tokens, starts, ends = tokenizer.split_with_offsets(tf.constant(["Qui vécut? "]))
    >>> tokens.to_list()[0][1].decode(), starts.to_list(), ends.to_list()
    ('vécut', [[0, 4, 10]], [[3, 10, 11]])
    """

    def __init__(self, vocabulary: Sequence[str], cleaning: str = "pieces") -> None:
        super().__init__(vocabulary)
        if cleaning not in SPAN_CLEANINGS:
            raise ValueError(
                f"cleaning must be one of {', '.join(SPAN_CLEANINGS)}; got {cleaning!r}"
            )
        self.cleaning = cleaning

    def split_with_offsets(
        self, strings: tf.Tensor
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """The words, and where they begin and end in the string: strings (B,) to three ragged (B, words).

        The places are int64, in bytes; a word is `string[start:end]`, in lower case where the cleaning says so.
        """
        tokens, starts, ends = tf_text.regex_split_with_offsets(strings, f"{SPACE}+|{PIECE}", PIECE)
        if self.cleaning == "pieces":
            lower = tf.strings.lower(tokens.flat_values, encoding="utf-8")
            tokens = tokens.with_flat_values(lower)
        return tokens, starts, ends

    def split(self, strings: tf.Tensor) -> tf.RaggedTensor:
        """The words: strings (B,) to ragged strings (B, words)."""
        return self.split_with_offsets(strings)[0]
