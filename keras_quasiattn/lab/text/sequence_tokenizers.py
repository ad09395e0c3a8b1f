"""Tokenizers for generated text: bytes and SentencePiece pieces, with an end id in each row."""

import abc
import io
import re
import tempfile
from collections.abc import Iterator, Sequence
from typing import Final

import tensorflow as tf
import tensorflow_text

from keras_quasiattn.errors import UserError
from keras_quasiattn.extras import require

_BYTE_SPECIAL_IDS = 2
_UNKNOWN_PIECE_ID, _FIRST_BYTE_PIECE_ID = 2, 3
_BATCH = 1000
_LONGEST = 4192  # bytes of a text that pieces are learned from


class _SequenceTokenizer(abc.ABC):
    """Base class of tokenizers that end every row with `eos_id` and pad it with `pad_id`.

    The mask of real positions is `ids != pad_id`; the end of the sequence is real.
    """

    pad_id: Final = 0
    eos_id: Final = 1

    @abc.abstractmethod
    def _ids(self, strings: tf.Tensor) -> tf.RaggedTensor:
        """Return the int32 ids of strings (B,), ragged (B, L), without the end."""

    def tokenize(
        self,
        strings: tf.Tensor,
        max_length: tf.Tensor | int | None = None,
        *,
        pad_to_max_length: bool = False,
    ) -> tf.Tensor:
        """Encode strings (B,) as int32 ids (B, L), ended by `eos_id` and padded with `pad_id`.

        Args:
            strings: any bytes, which may be empty; B may be 0.
            max_length: maximum number of ids, including the end, which a string that is cut keeps;
                an integer or a scalar tensor. None (the default) cuts nothing.
            pad_to_max_length: pad to `max_length` instead of the longest sequence of the batch, so
                that XLA compiles once.

        Raises:
            ValueError: `max_length` is below 1, or None with `pad_to_max_length`.
        """
        if isinstance(max_length, int) and max_length < 1:
            raise ValueError(
                f"max_length must be at least 1, to hold the end of the sequence; got {max_length}"
            )
        if pad_to_max_length and max_length is None:
            raise ValueError("pad_to_max_length needs a max_length; got None")
        ids = self._ids(tf.convert_to_tensor(strings, tf.string))
        if max_length is not None:
            ids = ids[:, : max_length - 1]
        ids = tf.concat([ids, tf.fill([ids.nrows(), 1], self.eos_id)], axis=1)
        if not pad_to_max_length:
            return ids.to_tensor(self.pad_id)
        if isinstance(max_length, int):
            return ids.to_tensor(self.pad_id, shape=(None, max_length))
        return ids.to_tensor(self.pad_id, shape=tf.stack([-1, max_length]))

    def _ended(self, ids: tf.Tensor) -> tf.Tensor:
        """Return whether each position is at or after the first end of its row."""
        return tf.cumsum(tf.cast(ids == self.eos_id, tf.int32), axis=-1) > 0


class ByteTokenizer(_SequenceTokenizer):
    """Turn strings into the ids of their bytes and back, without loss for any bytes.

    id = byte + 2, with 0 for padding and 1 for the end of the sequence, which is a real position:
    the mask is `ids != ByteTokenizer.pad_id`. It needs no table or asset.

    >>> tokenizer = ByteTokenizer()
    >>> ids = tokenizer.tokenize(tf.constant(["x=1", ""]))
    >>> ids.numpy().tolist()
    [[122, 63, 51, 1], [1, 0, 0, 0]]
    >>> tokenizer.detokenize(ids).numpy().tolist()
    [b'x=1', b'']

    Source: tensor2tensor's `ByteTextEncoder`.
    """

    vocabulary_size: Final = 256 + _BYTE_SPECIAL_IDS

    def __init__(self) -> None:
        self._splitter = tensorflow_text.ByteSplitter()

    def _ids(self, strings: tf.Tensor) -> tf.RaggedTensor:
        return tf.cast(self._splitter.split(strings), tf.int32) + _BYTE_SPECIAL_IDS

    def detokenize(self, ids: tf.Tensor) -> tf.Tensor:
        """Decode ids up to the first end of the sequence; skip padding and out-of-range ids.

        Args:
            ids: integer tensor (..., L).

        Returns:
            String tensor (...).
        """
        ids = tf.cast(ids, tf.int32)
        is_byte = (ids >= _BYTE_SPECIAL_IDS) & (ids < self.vocabulary_size) & ~self._ended(ids)
        alphabet = tf.constant([bytes([value]) for value in range(256)])
        characters = tf.gather(alphabet, tf.where(is_byte, ids - _BYTE_SPECIAL_IDS, 0))
        return tf.strings.reduce_join(tf.where(is_byte, characters, ""), axis=-1)


class SentencePieceTokenizer(_SequenceTokenizer):
    """Turn strings into ids of learned pieces and back: `detokenize(tokenize(x)) == normalize(x)`.

    Joined pieces restore the text inside the graph, because they include its spaces; WordPiece, as
    in `SubwordTokenizer`, loses them. A character that was not learned becomes its UTF-8 bytes,
    which are also pieces, so no script is unknown. Ids 0 and 1 are padding and the end, as in
    `ByteTokenizer`; then come an unknown piece, which no text produces, the 256 bytes, and the
    learned pieces.

    Args:
        model: a serialized SentencePiece model, as from `learn_sentence_pieces`.

    Raises:
        ValueError: `model` is not such a model.

    >>> tokenizer = SentencePieceTokenizer(
    ...     learn_sentence_pieces(["Ein Hund rennt.", "A dog runs."] * 9, size=290)
    ... )
    >>> ids = tokenizer.tokenize(tf.constant(["A Hund (\u4e16)!", ""]))
    >>> [text.decode() for text in tokenizer.detokenize(ids).numpy()]
    ['A Hund (世)!', '']

    Source: Kudo and Richardson 2018, "SentencePiece"; Kudo 2018, "Subword Regularization" (the
    unigram model).
    """

    def __init__(self, model: bytes) -> None:
        self.model = model
        special = tf.constant([self.pad_id, self.eos_id, _FIRST_BYTE_PIECE_ID])
        try:
            names = self.names(special).numpy()
        except tf.errors.OpError as error:
            raise ValueError(f"model is not a SentencePiece model: {error.message}") from None
        if names.tolist() != [b"<pad>", b"</s>", b"<0x00>"]:
            raise ValueError(
                f"model must come from learn_sentence_pieces; got special pieces {names.tolist()}"
            )
        self.vocabulary_size = int(self._pieces.vocab_size())

    @property
    def _pieces(self) -> tensorflow_text.SentencepieceTokenizer:
        # Create it for each use, so that a graph contains the model. One created outside the graph
        # belongs to TensorFlow's kernel cache, which `tf.random.set_seed` clears.
        return tensorflow_text.SentencepieceTokenizer(model=self.model, out_type=tf.int32)

    @staticmethod
    def normalize(strings: tf.Tensor) -> tf.Tensor:
        """Return texts as `detokenize` does: valid UTF-8, NFC, one space for each run of blanks."""
        valid = tf.strings.unicode_transcode(strings, "UTF-8", "UTF-8")
        composed = tensorflow_text.normalize_utf8(valid, "NFC")
        # SentencePiece represents a space as U+2581.
        return tf.strings.strip(tf.strings.regex_replace(composed, r"[\s\pZ\p{Cc}\x{2581}]+", " "))

    def _ids(self, strings: tf.Tensor) -> tf.RaggedTensor:
        return self._pieces.tokenize(self.normalize(strings))

    def names(self, ids: tf.Tensor) -> tf.Tensor:
        """Return the pieces of these ids, strings of the shape of `ids`; U+2581 is a blank."""
        return self._pieces.id_to_string(tf.cast(ids, tf.int32))

    def detokenize(self, ids: tf.Tensor) -> tf.Tensor:
        """Decode ids (B, L) to strings (B,), up to the first end of the sequence."""
        ids = tf.cast(ids, tf.int32)
        return self._pieces.detokenize(tf.where(self._ended(ids), self.pad_id, ids))


def learn_sentence_pieces(texts: Sequence[str | bytes], *, size: int) -> bytes:
    """Learn the model of a `SentencePieceTokenizer` from texts, such as those of both languages.

    The same texts in the same order give the same model. Texts of more than 4,192 bytes are
    skipped.

    Args:
        texts: the training texts.
        size: maximum size of the vocabulary; few texts give fewer pieces.

    Raises:
        UserError: the size is too small for the characters, or there is no text.
    """
    sentencepiece = require("sentencepiece", "tasks")
    messages = require("sentencepiece.sentencepiece_model_pb2", "tasks")

    def sentences() -> Iterator[str]:
        for start in range(0, len(texts), _BATCH):
            batch = tf.constant(list(texts[start : start + _BATCH]), tf.string)
            yield from (text.decode() for text in SentencePieceTokenizer.normalize(batch).numpy())

    model = io.BytesIO()
    try:
        with tempfile.NamedTemporaryFile("w", suffix=".tsv") as rule:
            # Texts are already normalized, but a model without rules prints a warning to standard
            # error when it is loaded, so add one harmless rule.
            rule.write("2581\t20\n")
            rule.flush()
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=sentences(),
                model_writer=model,
                model_type="unigram",
                vocab_size=size,
                hard_vocab_limit=False,
                byte_fallback=True,
                normalization_rule_tsv=rule.name,
                pad_id=SentencePieceTokenizer.pad_id,
                eos_id=SentencePieceTokenizer.eos_id,
                unk_id=_UNKNOWN_PIECE_ID,
                bos_id=-1,
                minloglevel=2,
                max_sentence_length=_LONGEST,
            )
    except RuntimeError as error:
        failed = f"no vocabulary of {size} pieces can be learned from {len(texts)} texts"
        if least := re.search(r"required_chars\. \d+ vs (\d+)", str(error)):
            raise UserError(
                f"{failed}: their characters need {least[1]}: set data.vocabulary_size to at least "
                "that"
            ) from None
        if "sentences_.empty()" in str(error):
            raise UserError(
                f"{failed}: each is empty or has more than {_LONGEST:,} bytes; split long texts"
            ) from None
        raise UserError(f"{failed} ({error})") from None
    # Protobuf creates the class at import, so type checkers do not see it.
    message = messages.ModelProto
    learned = message.FromString(model.getvalue())
    # It contains the name of the temporary file.
    learned.normalizer_spec.ClearField("normalization_rule_tsv")
    return learned.SerializeToString(deterministic=True)
