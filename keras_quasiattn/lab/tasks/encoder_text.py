"""Texts as one sequence of ids: "[CLS] text [SEP]", or "[CLS] first [SEP] second [SEP]".

RoBERTa's are "<s> text </s>" and "<s> first </s></s> second </s>".
"""

from collections.abc import Sequence

import tensorflow as tf

from keras_quasiattn.lab.text.byte_pair_tokenizer import BytePairTokenizer
from keras_quasiattn.lab.text.encoder_tokenizer import EncoderTokenizer

Tokenizer = EncoderTokenizer | BytePairTokenizer


def special_ids(tokenizer: Tokenizer, sides: int) -> int:
    """Return the number of special ids that `pack` adds for one or two texts."""
    return 2 + (sides - 1) * tokenizer.ends_between


def pack(
    tokenizer: Tokenizer, sides: Sequence[tf.Tensor], length: int, multiple: int = 1
) -> tf.Tensor:
    """Join the ids of one or two texts into one sequence for an encoder.

    If two texts are too long together, the longer one is cut first, at its end.

    Args:
        tokenizer: the encoder's tokenizer.
        sides: for each text, its ids (B, T), with 0 after the end.
        length: maximum number of ids in a sequence.
        multiple: pad to a multiple of this, but to `length` at most.

    Returns:
        int32 ids (B, L), padded with 0.
    """
    counts = [tf.math.count_nonzero(ids, axis=1, dtype=tf.int32) for ids in sides]  # (B,) each
    room = length - special_ids(tokenizer, len(sides))
    if len(sides) == 1:
        kept = [tf.minimum(counts[0], room)]
    else:
        second = tf.minimum(counts[1], tf.maximum(room // 2, room - counts[0]))
        kept = [tf.minimum(counts[0], room - second), second]
    rows = tf.shape(sides[0])[0]
    start, end = (tf.fill((rows, 1), one) for one in (tokenizer.start_id, tokenizer.end_id))
    texts = [
        tf.RaggedTensor.from_tensor(ids, lengths=count)
        for ids, count in zip(sides, kept, strict=True)
    ]
    parts = [start, texts[0]]
    for text in texts[1:]:
        parts += [*[end] * tokenizer.ends_between, text]
    parts.append(end)
    packed = tf.concat(parts, axis=1).to_tensor(tokenizer.pad_id)  # (B, L)
    longest = tf.shape(packed)[1]
    # An encoder has no positions beyond `length`.
    missing = tf.minimum(-longest % multiple, length - longest)
    return tf.pad(packed, [[0, 0], [0, missing]])
