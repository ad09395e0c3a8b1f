"""The tokenizers of pretrained encoders in the graph: WordPiece, and byte-level BPE."""

import json
from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from typing import Final

import tensorflow as tf
import tensorflow_text

from keras_quasiattn.errors import UserError
from keras_quasiattn.files import read_object, read_utf8
from keras_quasiattn.lab.text.vocabulary_tokenizers import VocabularyTokenizer

# The expressions of KerasHub's `WordPieceTokenizer`, the same as BERT's.
_BLANK: Final = r"\s|\p{Cc}|\p{Cf}"
_PUNCTUATION: Final = r"[!-/]|[:-@]|[\[-`]|[{-~]|[\p{P}]"
_CHINESE: Final = (
    r"[\x{4E00}-\x{9FFF}]|[\x{3400}-\x{4DBF}]|[\x{20000}-\x{2A6DF}]|[\x{2A700}-\x{2B73F}]|"
    r"[\x{2B740}-\x{2B81F}]|[\x{2B820}-\x{2CEAF}]|[\x{F900}-\x{FAFF}]|[\x{2F800}-\x{2FA1F}]"
)
_CLS: Final = "[CLS]"
_SEP: Final = "[SEP]"
START: Final = "<s>"
END: Final = "</s>"
# White space as Unicode defines it; RE2's `\s` covers ASCII only.
_SPACE: Final = (
    r"[\t-\r \x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000}]"
)
_OTHER: Final = rf"[^\p{{L}}\p{{N}}{_SPACE[1:-1]}]"
# The regular expression of GPT-2 and RoBERTa, without its lookahead after spaces.
_WORD: Final = rf"'s|'t|'re|'ve|'m|'ll|'d| ?\p{{L}}+| ?\p{{N}}+| ?{_OTHER}+|{_SPACE}+"
_NO_PAIR: Final = tf.int64.max
_VERSION = "#version:"  # may be in the first line of the merges


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

    required = (VocabularyTokenizer.UNKNOWN, _CLS, _SEP)
    ends_between = 1  # number of end tokens between two texts

    def __init__(
        self, vocabulary: Sequence[str], lowercase: bool = False, strip_accents: bool = False
    ) -> None:
        super().__init__(vocabulary)
        self.start_id = self.vocabulary.index(_CLS)
        self.end_id = self.vocabulary.index(_SEP)
        self.lowercase = lowercase
        self.strip_accents = strip_accents
        self._pieces = tensorflow_text.FastWordpieceTokenizer(
            vocab=self.vocabulary,
            token_out_type=tf.string,
            unknown_token=self.UNKNOWN,
            no_pretokenization=True,
        )
        self._further_resources = [self._pieces]

    def _check_special(self, vocabulary: Sequence[str]) -> None:
        super()._check_special(vocabulary)
        if any(not token or "\0" in token for token in vocabulary):
            raise ValueError("vocabulary must not have an empty token, or one with a NUL")

    def split(self, strings: tf.Tensor) -> tf.RaggedTensor:
        """Split strings (B,) into pieces, ragged strings (B, pieces)."""
        # tensorflow-text would end a text at its first NUL.
        strings = tf.strings.regex_replace(strings, r"\x00", " ")
        strings = tf.strings.regex_replace(strings, _CHINESE, r" \0 ")
        if self.strip_accents:
            decomposed = tensorflow_text.normalize_utf8(strings, "NFD")
            strings = tf.strings.regex_replace(decomposed, r"\p{Mn}", "")
        kept = f"{_PUNCTUATION}|{_CHINESE}"
        words = tensorflow_text.regex_split(strings, f"{_BLANK}|{kept}", kept)
        if self.lowercase:
            words = tensorflow_text.case_fold_utf8(words)
        return self._pieces.tokenize(words).merge_dims(-2, -1)


class BytePairTokenizer(VocabularyTokenizer):
    r"""Byte-level BPE as RoBERTa was trained with it: bytes are joined to known pieces.

    A word includes the space before it, if any, and is first split into bytes. Then the adjacent
    pair of pieces that comes first among the merges is joined, until no pair is a merge. Nothing is
    unknown, and no text produces a special token.

    Args:
        vocabulary: the pieces by id, with the character of `byte_characters` for each byte; the
            first is "<pad>", and "<s>", "</s>" and the pieces of all bytes are among them.
        merges: pairs of pieces, such as "Ġ t", in order. The result of a merge must be a piece too.

    Raises:
        ValueError: the vocabulary lacks a token, or holds one twice; or a merge does not join two
            pieces into a piece.

    >>> letters = list(byte_characters().values())
    >>> vocabulary = ["<pad>", "<s>", "</s>", *letters, "lo", "low"]
    >>> tokenizer = BytePairTokenizer(vocabulary, ["l o", "lo w"])
    >>> tokenizer.split(tf.constant(["low slow"])).to_list()[0]
    [b'low', b'\xc4\xa0', b's', b'low']

    Source: Radford et al. 2019, "Language Models are Unsupervised Multitask Learners".
    """

    PADDING = "<pad>"
    UNKNOWN = "<unk>"
    required = (START, END)
    ends_between = 2  # number of end tokens between two texts

    def __init__(self, vocabulary: Sequence[str], merges: Sequence[str]) -> None:
        super().__init__(vocabulary)
        self.start_id = self.vocabulary.index(START)
        self.end_id = self.vocabulary.index(END)
        self.merges = list(merges)
        ids = {piece: number for number, piece in enumerate(self.vocabulary)}
        self._size, self._names = len(ids), tf.constant(self.vocabulary)
        self._of_bytes = [ids[one] for _, one in sorted(byte_characters().items())]
        joined = dict[int, int]()  # by pair, the place among the merges and the piece that it makes
        for place, merge in enumerate(self.merges):
            left, right = parts_of(merge, ids)
            pair = ids[left] * self._size + ids[right]
            joined.setdefault(pair, place * self._size + ids[left + right])
        self._joined = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(
                tf.constant(list(joined.keys()) or [-1], tf.int64),
                tf.constant(list(joined.values()) or [_NO_PAIR], tf.int64),
            ),
            default_value=_NO_PAIR,
        )
        self._further_resources = [self._joined]
        self._pieces_of = tf.function(
            self._joined_pieces, input_signature=[tf.TensorSpec((None,), tf.string)]
        )

    def _check_special(self, vocabulary: Sequence[str]) -> None:
        super()._check_special(vocabulary)
        known = set(vocabulary)
        for byte, character in byte_characters().items():
            if character not in known:
                raise ValueError(f"vocabulary must have {character!r}, the piece of byte {byte}")

    def split(self, strings: tf.Tensor) -> tf.RaggedTensor:
        """Split strings (B,) into pieces, ragged strings (B, pieces)."""
        words = _words(strings)
        unique, place = tf.unique(words.flat_values)
        ids, lengths = self._pieces_of(unique)
        pieces = tf.RaggedTensor.from_row_lengths(tf.gather(self._names, ids), lengths)
        return words.with_flat_values(tf.gather(pieces, place)).merge_dims(1, 2)

    def _joined_pieces(self, words: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the ids of the pieces of words (W,), flat, and their number in each word (W,).

        In each step a word joins all occurrences of its first pair. A word without a pair leaves
        the loop, so that one very long word does not slow down the others.
        """
        flat = tf.strings.bytes_split(words)  # (W, bytes)
        codes = tf.reshape(tf.io.decode_raw(flat.flat_values, tf.uint8), [-1])
        ids = tf.gather(tf.constant(self._of_bytes, tf.int64), tf.cast(codes, tf.int32))
        word = tf.cast(flat.value_rowids(), tf.int32)
        count = tf.size(words)
        place = tf.range(tf.size(ids))

        def step(
            ids: tf.Tensor, word: tf.Tensor, place: tf.Tensor, done: tf.Tensor
        ) -> tuple[tf.Tensor, ...]:
            pair = tf.where(word[1:] == word[:-1], ids[:-1] * self._size + ids[1:], -1)
            found = self._joined.lookup(tf.concat([pair, [-1]], axis=0))  # of each with the next
            first = tf.gather(tf.math.unsorted_segment_min(found, word, count), word)
            has_pair = first != _NO_PAIR
            joins = _every_other(has_pair & (found == first))
            kept = tf.concat([[True], ~joins[:-1]], axis=0)
            ended = tf.where(~has_pair)
            of_words = tf.gather_nd(ids, ended)
            done = tf.tensor_scatter_nd_update(done, tf.gather(place, ended), of_words)
            ids = tf.where(joins, found % self._size, ids)
            kept &= has_pair
            return *(tf.boolean_mask(one, kept) for one in (ids, word, place)), done

        *_, done = tf.while_loop(
            lambda ids, *_: tf.size(ids) > 0,
            step,
            (ids, word, place, tf.fill(tf.shape(ids), tf.constant(-1, tf.int64))),
            shape_invariants=(tf.TensorShape([None]),) * 4,
        )
        is_piece = done >= 0
        lengths = tf.math.unsorted_segment_sum(tf.cast(is_piece, tf.int64), word, count)
        return tf.cast(tf.boolean_mask(done, is_piece), tf.int32), lengths


def byte_characters() -> Mapping[int, str]:
    """Return the character that represents each byte in pieces: itself if it is visible."""
    seen = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(0x100) if byte not in seen]
    return {
        **{byte: chr(byte) for byte in seen},
        **{byte: chr(0x100 + number) for number, byte in enumerate(others)},
    }


def parts_of(merge: str, pieces: Container[str]) -> tuple[str, str]:
    """Return the two pieces that a merge joins, or raise a ValueError."""
    left, space, right = merge.partition(" ")
    if not (left and space and right) or " " in right:
        raise ValueError(f"the merge {merge!r} must be two pieces with a space between them")
    for piece in (left, right, left + right):
        if piece not in pieces:
            raise ValueError(f"the merge {merge!r} needs {piece!r}, which the vocabulary lacks")
    return left, right


def _words(strings: tf.Tensor) -> tf.RaggedTensor:
    """Split strings (B,) as RoBERTa's regular expression does, ragged (B, words).

    Of several spaces before a word, the last one belongs to the word if it is " ", and otherwise is
    a word of its own. RE2 cannot look ahead, so spaces are found first.
    """
    # tensorflow-text would end a text at its first NUL.
    parts = tensorflow_text.regex_split(
        tf.strings.regex_replace(strings, r"\x00", "\1"), f"{_SPACE}+", f"{_SPACE}+"
    )
    flat, row = parts.flat_values, parts.value_rowids()
    is_followed = tf.concat([row[1:] == row[:-1], tf.zeros_like(row[:1], tf.bool)], axis=0)
    is_before = tf.strings.regex_full_match(flat, f"{_SPACE}+") & is_followed
    last = tf.where(is_before, tf.strings.regex_replace(flat, f"^{_SPACE}*({_SPACE})$", r"\1"), "")
    head = tf.where(is_before, tf.strings.regex_replace(flat, f"{_SPACE}$", ""), flat)
    given = tf.where(last == " ", " ", "")
    head = tf.strings.join([tf.concat([tf.zeros_like(given[:1]), given[:-1]], axis=0), head])
    alone = tf.where(last == " ", "", last)
    pieces = tf.reshape(tf.stack([head, alone], axis=1), [-1])
    words = tensorflow_text.regex_split(pieces, _WORD, _WORD)
    of_row = tf.gather(tf.repeat(row, 2), words.value_rowids())
    # Nothing is lost, so the lengths give the positions of the words in the original strings.
    lengths = tf.strings.length(words.flat_values)
    found = tf.RaggedTensor.from_value_rowids(lengths, of_row, nrows=tf.size(strings, tf.int64))
    ends = tf.cumsum(lengths)
    before = tf.gather(tf.concat([[0], ends], axis=0), found.row_starts())  # of each row
    starts = ends - lengths - tf.gather(before, of_row)
    return found.with_flat_values(tf.strings.substr(tf.gather(strings, of_row), starts, lengths))


def _every_other(mask: tf.Tensor) -> tf.Tensor:
    """Keep the first, third, … of neighbours that are true (N,), which may not all be joined."""
    starts = mask & ~tf.concat([[False], mask[:-1]], axis=0)
    run = tf.cumsum(tf.cast(starts, tf.int32))
    place = tf.range(tf.size(mask))
    first = tf.math.segment_min(place, run)
    return mask & ((place - tf.gather(first, run)) % 2 == 0)


def read_byte_pairs(vocabulary: Path, merges: Path) -> tuple[list[str], list[str], int]:
    """Return the pieces by id, the merges in order, and the id of padding in the file.

    `vocabulary` is a JSON object of the ids by piece; `merges` has two pieces a line, with a space
    between them. Among the pieces, padding has changed places with the piece whose id is 0.
    """
    ids = _read_ids(vocabulary)
    pieces = sorted(ids, key=lambda piece: ids[piece])
    for number, piece in enumerate(pieces):
        if ids[piece] != number:
            line = _line_of(vocabulary, piece)
            raise UserError(
                f"{vocabulary}, line {line}: the id of {piece!r} is {ids[piece]}, and no piece has "
                f"the id {number}: ids must be 0, 1, …, each once"
            )
    padding = ids.get(BytePairTokenizer.PADDING, 0)
    pieces[0], pieces[padding] = pieces[padding], pieces[0]
    found = []
    for number, merge in enumerate(map(str.rstrip, read_utf8(merges).split("\n")), 1):
        if not merge or (number == 1 and merge.startswith(_VERSION)):
            continue
        try:
            parts_of(merge, ids)
        except ValueError as error:
            raise UserError(f"{merges}, line {number}: {error}") from error
        found.append(merge)
    try:
        BytePairTokenizer(pieces, [])
    except ValueError as error:
        raise UserError(f"{vocabulary}: {error}") from error
    return pieces, found, padding


def _read_ids(file: Path) -> dict[str, int]:
    values = read_object(file, "a JSON object of the ids by piece")
    for piece, number in values.items():
        if type(number) is not int:
            line = _line_of(file, piece)
            raise UserError(
                f"{file}, line {line}: the id of {piece!r} is {number!r}: expected an integer"
            )
    return values


def _line_of(file: Path, piece: str) -> int:
    """Return the number of the line with a piece of a JSON object."""
    text = read_utf8(file)
    keys = (json.dumps(piece, ensure_ascii=ascii_only) for ascii_only in (True, False))
    places = [place for key in keys if (place := text.find(key)) >= 0]
    return text.count("\n", 0, min(places, default=0)) + 1
