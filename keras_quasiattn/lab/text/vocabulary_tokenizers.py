"""Clean texts, split them at words or WordPiece subwords, and learn vocabularies of these."""

import abc
import collections
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, ClassVar, Final

import tensorflow as tf
import tensorflow_text
from tensorflow_text.tools.wordpiece_vocab import bert_vocab_from_dataset

from keras_quasiattn.errors import UserError

_CLITICS = "('s|'ve|n't|'re|'d|'ll)"
# SPACE separates words, and a PIECE is a word alone. All else (letters, marks, digits) forms words.
SPACE: Final = r"[\s\pZ\pC]"
PIECE: Final = r"[^\pL\pM\pN\s\pZ\pC]"
TEXT_VERSION: Final = 2  # new runs use this version and record it
APOSTROPHES: Final = "[\u2019\u02bc\uff07]"  # other characters that are used for '
_TAG_NAMES = (
    "a abbr acronym address applet area article aside audio b base basefont bdi bdo big blockquote "
    "body br button canvas caption center cite code col colgroup data datalist dd del details dfn "
    "dialog dir div dl dt em embed fieldset figcaption figure font footer form frame frameset "
    "h[1-6] head header hgroup hr html i iframe img input ins kbd label legend li link main map "
    "mark marquee menu meta meter nav nobr noframes noscript object ol optgroup option output p "
    "param picture pre progress q rp rt ruby s samp script search section select slot small source "
    "span strike strong style sub summary sup svg table tbody td template textarea tfoot th thead "
    "time title tr track tt u ul var video wbr"
).replace(" ", "|")
_ATTRIBUTE = (
    r"""\s+(?:[a-z][a-z0-9:_-]*\s*=\s*(?:"[^"<]*"|'[^'<]*'|[^\s"'<>]+)|"""
    r"async|autoplay|checked|compact|controls|defer|disabled|hidden|ismap|loop|multiple|muted|"
    r"noshade|nowrap|open|readonly|required|reversed|selected)"
)
_TAGS = {
    1: "<[^<>]{1,40}>",
    TEXT_VERSION: f"</?(?:{_TAG_NAMES})(?:{_ATTRIBUTE})*\\s*/?>|<!--[^<>]*-->|<!doctype[^<>]*>",
}
SPAN_CLEANINGS: Final = ("pieces", "cased_pieces")
_BATCH = 1000


def apostrophes(strings: tf.Tensor, version: int = TEXT_VERSION) -> tf.Tensor:
    """Replace other apostrophes by the ASCII one."""
    if version == 1:
        return strings
    return tf.strings.regex_replace(strings, APOSTROPHES, "'")


def clean_questions(strings: tf.Tensor, version: int = TEXT_VERSION) -> tf.Tensor:
    """Lower-case ASCII words and split off clitics and the punctuation , ! ( ) ? as words.

    Letters, digits, apostrophes and ` are also kept; all other characters become spaces.

    >>> clean_questions(tf.constant(["What's Oz (the wizard)?"])).numpy()[0].decode()
    "what 's oz ( the wizard ) ?"

    Source: `clean_str` of harvardnlp/sent-conv-torch, after Kim 2014; used there for TREC.
    """
    strings = tf.strings.regex_replace(_valid(strings, version), "[^A-Za-z0-9(),!?'`]", " ")
    strings = tf.strings.regex_replace(strings, _CLITICS, r" \1")
    strings = tf.strings.regex_replace(strings, "([,!()?])", r" \1 ")
    return tf.strings.lower(_single_spaces(strings))


def clean_treebank(strings: tf.Tensor, version: int = TEXT_VERSION) -> tf.Tensor:
    """Lower-case ASCII text that is already tokenized.

    Letters, digits, apostrophes and ( ) , ! ? ` are kept; all other characters become spaces.

    >>> clean_treebank(tf.constant(["It 's n't a b\u00e9te film ."])).numpy()[0].decode()
    "it 's n't a b te film"

    Source: `clean_str_sst` of harvardnlp/sent-conv-torch; used there for the Stanford Sentiment
    Treebank.
    """
    strings = tf.strings.regex_replace(_valid(strings, version), "[^A-Za-z0-9(),!?'`]", " ")
    return tf.strings.lower(_single_spaces(strings))


def clean_words(strings: tf.Tensor, version: int = TEXT_VERSION) -> tf.Tensor:
    """Lower-case words of any script, split off clitics and other characters, and drop HTML tags.

    A tag is the name of an HTML element and its attributes, if any, between < and >.

    >>> clean_words(tf.constant(["I'd say: <br />'Bête' isn’t bad <3!"])).numpy()[0].decode()
    "i 'd say : ' bête ' is n't bad < 3 !"
    """
    strings = tf.strings.lower(_valid(strings, version), encoding="utf-8")
    strings = tf.strings.regex_replace(strings, f"{_TAGS[version]}|\x01", " ")
    # \x01 stands for a clitic's apostrophe while all other apostrophes are split off.
    strings = tf.strings.regex_replace(strings, r"n'(t)\b", "n\x01\\1")
    strings = tf.strings.regex_replace(strings, r"'(s|ve|re|d|ll|m)\b", "\x01\\1")
    strings = tf.strings.regex_replace(strings, r"([^\pL\pM\pN\s\x01])", r" \1 ")
    strings = tf.strings.regex_replace(strings, r"(n?\x01)", r" \1")
    strings = tf.strings.regex_replace(strings, "\x01", "'")
    return _single_spaces(strings)


def clean_cased_pieces(strings: tf.Tensor, version: int = TEXT_VERSION) -> tf.Tensor:
    """Keep words of any script as written; make every other character a word.

    >>> clean_cased_pieces(tf.constant(["Bête-de 24–10, isn't it?"])).numpy()[0].decode()
    "Bête - de 24 – 10 , isn ' t it ?"
    """
    strings = tf.strings.regex_replace(_valid(strings, version), f"({PIECE})", r" \1 ")
    return tf.strings.strip(tf.strings.regex_replace(strings, f"{SPACE}+", " "))


def clean_pieces(strings: tf.Tensor, version: int = TEXT_VERSION) -> tf.Tensor:
    """Do the same as `clean_cased_pieces`, in lower case.

    >>> clean_pieces(tf.constant(["Bête-de"])).numpy()[0].decode()
    'bête - de'
    """
    return tf.strings.lower(clean_cased_pieces(strings, version), encoding="utf-8")


CLEANINGS: Final[dict[str, Callable[..., tf.Tensor]]] = {
    "questions": clean_questions,
    "treebank": clean_treebank,
    "words": clean_words,
    "pieces": clean_pieces,
    "cased_pieces": clean_cased_pieces,
}


def _valid(strings: tf.Tensor, version: int) -> tf.Tensor:
    """Replace bytes that are not UTF-8 by U+FFFD, which no cleaning treats as a letter."""
    return apostrophes(tf.strings.unicode_transcode(strings, "UTF-8", "UTF-8"), version)


def _single_spaces(strings: tf.Tensor) -> tf.Tensor:
    return tf.strings.strip(tf.strings.regex_replace(strings, r"[\s\pZ]+", " "))


class VocabularyTokenizer(abc.ABC):
    """Map strings to vocabulary ids inside the graph: 0 is padding, 1 unknown, the rest tokens.

    The mask of real positions is `ids != VocabularyTokenizer.pad_id`.

    Args:
        vocabulary: the tokens by id, all different; the first two are `PADDING` and `UNKNOWN`.
        unknown_ids: number of ids U for tokens outside the vocabulary of V tokens. A hash of the
            token, the same in every process, chooses among id 1 and V … V + U − 2. Defaults to 1.

    Raises:
        ValueError: the vocabulary begins with other tokens or holds a token twice, or `unknown_ids`
            is below 1.
    """

    PADDING: ClassVar[str] = "[PAD]"
    UNKNOWN: ClassVar[str] = "[UNK]"
    required: ClassVar[tuple[str, ...]] = ()  # special tokens that may be anywhere
    pad_id: Final = 0
    unknown_id: int = 1
    _further_resources: Sequence[Any] = ()  # besides the table of ids

    def __init__(self, vocabulary: Sequence[str], unknown_ids: int = 1) -> None:
        self._check_special(vocabulary)
        if len(set(vocabulary)) != len(vocabulary):
            raise ValueError("vocabulary must not have a token twice")
        if unknown_ids < 1:
            raise ValueError(f"unknown_ids must be at least 1; got {unknown_ids}")
        self.vocabulary = list(vocabulary)
        if self.UNKNOWN in self.vocabulary:
            self.unknown_id = self.vocabulary.index(self.UNKNOWN)
        self.unknown_ids = unknown_ids
        # Texts never produce special tokens other than `UNKNOWN`, because brackets are split off or
        # removed.
        self._table = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(
                tf.constant(self.vocabulary, tf.string),
                tf.range(len(self.vocabulary), dtype=tf.int32),
            ),
            default_value=self.unknown_id,
        )

    def _check_special(self, vocabulary: Sequence[str]) -> None:
        """Reject a vocabulary whose special tokens do not have their ids."""
        first = [self.PADDING] if self.required else [self.PADDING, self.UNKNOWN]
        given = list(vocabulary[: len(first)])
        if given != first:
            raise ValueError(f"vocabulary must begin with {' and '.join(first)}; got {given}")
        for token in self.required:
            if token not in vocabulary:
                raise ValueError(f"vocabulary must have {token}")

    @property
    def vocabulary_size(self) -> int:
        """The number of ids."""
        return len(self.vocabulary) + self.unknown_ids - 1

    @property
    def resources(self) -> list[Any]:
        """The resources that a SavedModel must track for the tokenizer."""
        return [*self._further_resources, self._table]

    @abc.abstractmethod
    def split(self, strings: tf.Tensor) -> tf.RaggedTensor:
        """Split strings (B,) into tokens, ragged strings (B, tokens)."""

    def ids(self, tokens: tf.RaggedTensor) -> tf.RaggedTensor:
        """Return the int32 ids of the tokens."""
        return tf.ragged.map_flat_values(self.lookup, tokens)

    def lookup(self, tokens: tf.Tensor) -> tf.Tensor:
        """Return the int32 ids of a tensor of strings, in the same shape."""
        ids = self._table.lookup(tokens)
        if self.unknown_ids == 1:
            return ids
        bucket = tf.cast(tf.strings.to_hash_bucket_fast(tokens, self.unknown_ids), tf.int32)
        hashed = tf.where(bucket == 0, self.unknown_id, len(self.vocabulary) - 1 + bucket)
        return tf.where(ids == self.unknown_id, hashed, ids)

    def tokenize(
        self, strings: tf.Tensor, max_length: int | None = None, *, length_multiple: int = 1
    ) -> tf.Tensor:
        """Encode a batch of strings.

        Args:
            strings: string tensor (B,). Strings may be empty and need not be UTF-8; B may be 0.
            max_length: number of ids at which a longer string is cut; None cuts nothing.
            length_multiple: pad to a multiple of this, to limit the number of different shapes.
                Defaults to 1.

        Returns:
            int32 ids (B, L), padded with `pad_id`; L is at least `length_multiple`.
        """
        return self.pad(self.split(strings)[:, :max_length], length_multiple)[1]

    def pad(self, tokens: tf.RaggedTensor, length_multiple: int = 1) -> tuple[tf.Tensor, tf.Tensor]:
        """Return tokens, padded with "", and their ids, padded like those of `tokenize`: (B, L)."""
        longest = tf.reduce_max(tf.concat([[1], tf.cast(tokens.row_lengths(), tf.int32)], axis=0))
        shape = tf.stack([-1, -(-longest // length_multiple) * length_multiple])
        ids = self.ids(tokens).to_tensor(self.pad_id, shape=shape)
        return tokens.to_tensor("", shape=shape), ids


class WordTokenizer(VocabularyTokenizer):
    """Clean a string, split it at spaces and look up the words.

    Args:
        vocabulary: the words by id; see `VocabularyTokenizer`.
        cleaning: a name in `CLEANINGS`: "questions", "treebank", "words", "pieces" or
            "cased_pieces". Defaults to "words".
        unknown_ids: number of ids for other words; see `VocabularyTokenizer`. Defaults to 1.
        text_version: version of the cleaning; 1 for runs that record none.

    Raises:
        ValueError: the cleaning is unknown, or the vocabulary or `unknown_ids` is unsuitable.

    >>> tokenizer = WordTokenizer(["[PAD]", "[UNK]", "who", "?"], cleaning="questions")
    >>> tokenizer.tokenize(tf.constant(["Who shot?", ""])).numpy().tolist()
    [[2, 1, 3], [0, 0, 0]]
    """

    cleanings: ClassVar[tuple[str, ...]] = tuple(CLEANINGS)

    def __init__(
        self,
        vocabulary: Sequence[str],
        cleaning: str = "words",
        unknown_ids: int = 1,
        text_version: int = TEXT_VERSION,
    ) -> None:
        super().__init__(vocabulary, unknown_ids)
        if cleaning not in self.cleanings:
            known = ", ".join(self.cleanings)
            raise ValueError(f"cleaning must be one of {known}; got {cleaning!r}")
        self.cleaning = cleaning
        self.text_version = text_version

    def split(self, strings: tf.Tensor) -> tf.RaggedTensor:
        """Split strings (B,) into words, ragged strings (B, words)."""
        return tf.strings.split(CLEANINGS[self.cleaning](strings, self.text_version))


class SpanTokenizer(WordTokenizer):
    """Split a string into runs of letters and digits and single other characters, with positions.

    The words are those of the cleaning of the same name. The string itself is not changed, so the
    positions refer to it.

    Args:
        vocabulary: the words by id; see `VocabularyTokenizer`.
        cleaning: "pieces", whose words are in lower case, or "cased_pieces". Defaults to "pieces".
        unknown_ids: number of ids for other words; see `VocabularyTokenizer`. Defaults to 1.
        text_version: version of the cleaning; 1 for runs that record none.

    Raises:
        ValueError: as for `WordTokenizer`.

    >>> tokenizer = SpanTokenizer(["[PAD]", "[UNK]", "who", "?"])
    >>> tokens, starts, ends = tokenizer.split_with_offsets(tf.constant(["Qui vécut? "]))
    >>> tokens.to_list()[0][1].decode(), starts.to_list(), ends.to_list()
    ('vécut', [[0, 4, 10]], [[3, 10, 11]])
    """

    cleanings: ClassVar[tuple[str, ...]] = SPAN_CLEANINGS

    def __init__(
        self,
        vocabulary: Sequence[str],
        cleaning: str = "pieces",
        unknown_ids: int = 1,
        text_version: int = TEXT_VERSION,
    ) -> None:
        super().__init__(vocabulary, cleaning, unknown_ids, text_version)

    def split_with_offsets(
        self, strings: tf.Tensor
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """Split strings (B,) into words, starts and ends, each ragged (B, words).

        Starts and ends are int64 byte positions. A word is `string[start:end]`, in lower case for
        "pieces", or the ASCII apostrophe where the string has another one.
        """
        piece = PIECE if self.text_version == 1 else f"{PIECE}|{APOSTROPHES}"
        tokens, starts, ends = tensorflow_text.regex_split_with_offsets(
            strings, f"{SPACE}+|{piece}", piece
        )
        words = apostrophes(tokens.flat_values, self.text_version)
        if self.cleaning == "pieces":
            words = tf.strings.lower(words, encoding="utf-8")
        return tokens.with_flat_values(words), starts, ends

    def split(self, strings: tf.Tensor) -> tf.RaggedTensor:
        """Split strings (B,) into words, ragged strings (B, words)."""
        return self.split_with_offsets(strings)[0]


class SubwordTokenizer(VocabularyTokenizer):
    """Cut lower-cased words and punctuation greedily into the longest known pieces (WordPiece).

    Accents are removed. A piece inside a word begins with "##". A word that cannot be cut into
    known pieces is unknown as a whole.

    Args:
        vocabulary: the pieces by id; see `VocabularyTokenizer` and `learn_subwords`.
        text_version: version of the text processing; 1 for runs that record none.

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
        self._further_resources = [self._pieces]

    def split(self, strings: tf.Tensor) -> tf.RaggedTensor:
        """Split strings (B,) into pieces, ragged strings (B, pieces)."""
        return self._pieces.tokenize(apostrophes(strings, self.text_version))


_SPECIAL = [VocabularyTokenizer.PADDING, VocabularyTokenizer.UNKNOWN]


def count_words(
    texts: Sequence[str | bytes], cleaning: str, text_version: int = TEXT_VERSION
) -> Mapping[str, int]:
    """Count the words of some texts; the other arguments are as for `WordTokenizer`."""
    tokenizer = WordTokenizer(_SPECIAL, cleaning, text_version=text_version)
    split = tf.function(tokenizer.split, input_signature=[tf.TensorSpec((None,), tf.string)])
    counts: collections.Counter[str] = collections.Counter()
    for start in range(0, len(texts), _BATCH):
        words = split(tf.constant(list(texts[start : start + _BATCH]), tf.string)).flat_values
        counts.update(word.decode("utf-8", "replace") for word in words.numpy())
    return counts


def ranked_words(
    counts: Mapping[str, int], *, size: int, min_count: int = 1, known: Collection[str] = ()
) -> list[str]:
    """Return a vocabulary for `WordTokenizer`: the most frequent of the counted words.

    Args:
        counts: how often each word occurs, as from `count_words`.
        size: maximum size of the vocabulary, including the two special tokens, which come first.
        min_count: rarer words are left out, unless they are in `known`. Defaults to 1.
        known: words that may be rare, for example because they have a word vector.

    >>> counts = count_words(["a b a", "c b a"], "words")
    >>> ranked_words(counts, size=10, min_count=2, known={"c"})
    ['[PAD]', '[UNK]', 'a', 'b', 'c']
    """
    kept = [word for word, count in counts.items() if count >= min_count or word in known]
    ranked = sorted(set(kept) - set(_SPECIAL), key=lambda word: (-counts[word], word))
    return [*_SPECIAL, *ranked[: size - len(_SPECIAL)]]


def learn_subwords(
    texts: Sequence[str | bytes], *, size: int, text_version: int = TEXT_VERSION
) -> list[str]:
    """Learn a vocabulary of about `size` pieces of the words of some texts for `SubwordTokenizer`.

    Raises:
        UserError: no text has a word.

    Source: tensorflow-text's `bert_vocab_from_dataset`.
    """
    try:
        pieces = bert_vocab_from_dataset.bert_vocab_from_dataset(
            tf.data.Dataset.from_tensor_slices(list(texts))
            .batch(_BATCH)
            .map(lambda some: apostrophes(some, text_version)),
            vocab_size=size,
            reserved_tokens=_SPECIAL,
            bert_tokenizer_params={"lower_case": True},
        )
    except StopIteration:  # from tensorflow-text
        raise UserError(
            f"no pieces can be learned from {len(texts)} texts: no text has a word"
        ) from None
    return list(dict.fromkeys(pieces))


def vocabulary_text(vocabulary: Sequence[str]) -> str:
    """Return the content of a vocabulary file: one token per line, in order of the ids."""
    return "".join(f"{token}\n" for token in vocabulary)


def read_vocabulary(text: str, source: str) -> list[str]:
    """Read a vocabulary from the content of the file `source`.

    Raises:
        UserError: the text is not a vocabulary.
    """
    vocabulary = text.removesuffix("\n").split("\n")
    if vocabulary[:2] != _SPECIAL or len(set(vocabulary)) != len(vocabulary):
        raise UserError(
            f"{source} is damaged: it must begin with {' and '.join(_SPECIAL)}, one per line, "
            "and have no token twice"
        )
    return vocabulary
