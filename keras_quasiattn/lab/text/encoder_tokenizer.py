"""The WordPiece tokenizer of a pretrained encoder, with KerasHub's text processing in the graph."""

from collections.abc import Sequence
from typing import Any, Final

import tensorflow as tf
import tensorflow_text

from keras_quasiattn.lab.text.vocabulary_tokenizers import VocabularyTokenizer

# The expressions of KerasHub's `WordPieceTokenizer`, the same as BERT's.
_SPACE: Final = r"\s|\p{Cc}|\p{Cf}"
_PUNCTUATION: Final = r"[!-/]|[:-@]|[\[-`]|[{-~]|[\p{P}]"
_CHINESE: Final = (
    r"[\x{4E00}-\x{9FFF}]|[\x{3400}-\x{4DBF}]|[\x{20000}-\x{2A6DF}]|[\x{2A700}-\x{2B73F}]|"
    r"[\x{2B740}-\x{2B81F}]|[\x{2B820}-\x{2CEAF}]|[\x{F900}-\x{FAFF}]|[\x{2F800}-\x{2FA1F}]"
)
START: Final = "[CLS]"
END: Final = "[SEP]"


class EncoderTokenizer(VocabularyTokenizer):
    """WordPiece as a pretrained encoder was trained with it: words are cut into known pieces.

    Words end at white space, at punctuation and around each Chinese character. The text between
    them is cut greedily into the longest known pieces; a piece inside a word begins with "##". A
    word that cannot be cut into known pieces is unknown as a whole. No text produces a special
    token other than `UNKNOWN`, because brackets are words.

    Args:
        vocabulary: the pieces by id; the first is "[PAD]", and "[UNK]", "[CLS]" and "[SEP]" are
            among them.
        lowercase: whether letters lose their case.
        strip_accents: whether letters lose their accents.

    Raises:
        ValueError: the vocabulary lacks a special token, or holds a token twice.

    >>> vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "un", "##seen", "!"]
    >>> tokenizer = EncoderTokenizer(vocabulary, lowercase=True)
    >>> tokenizer.tokenize(tf.constant(["Unseen!", "seen"])).numpy().tolist()
    [[4, 5, 6], [1, 0, 0]]

    Source: KerasHub's `WordPieceTokenizer`; Devlin et al. 2018, "BERT".
    """

    required = (VocabularyTokenizer.UNKNOWN, START, END)
    ends_between = 1  # number of end tokens between two texts

    def __init__(
        self, vocabulary: Sequence[str], lowercase: bool = False, strip_accents: bool = False
    ) -> None:
        super().__init__(vocabulary)
        self.start_id = self.vocabulary.index(START)
        self.end_id = self.vocabulary.index(END)
        self.lowercase = lowercase
        self.strip_accents = strip_accents
        self._pieces = tensorflow_text.FastWordpieceTokenizer(
            vocab=self.vocabulary,
            token_out_type=tf.string,
            unknown_token=self.UNKNOWN,
            no_pretokenization=True,
        )

    def _check_special(self, vocabulary: Sequence[str]) -> None:
        super()._check_special(vocabulary)
        if any(not token or "\0" in token for token in vocabulary):
            raise ValueError("vocabulary must not have an empty token, or one with a NUL")
        self.unknown_id = list(vocabulary).index(self.UNKNOWN)

    @property
    def resources(self) -> list[Any]:
        """The WordPiece splitter and the table of the pieces' ids."""
        return [self._pieces, *super().resources]

    def split(self, strings: tf.Tensor) -> tf.RaggedTensor:
        """Split strings (B,) into pieces, ragged strings (B, pieces)."""
        # tensorflow-text would end a text at its first NUL.
        strings = tf.strings.regex_replace(strings, r"\x00", " ")
        strings = tf.strings.regex_replace(strings, _CHINESE, r" \0 ")
        if self.strip_accents:
            decomposed = tensorflow_text.normalize_utf8(strings, "NFD")
            strings = tf.strings.regex_replace(decomposed, r"\p{Mn}", "")
        kept = f"{_PUNCTUATION}|{_CHINESE}"
        words = tensorflow_text.regex_split(strings, f"{_SPACE}|{kept}", kept)
        if self.lowercase:
            words = tensorflow_text.case_fold_utf8(words)
        return self._pieces.tokenize(words).merge_dims(-2, -1)
