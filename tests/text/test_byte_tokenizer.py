import random

import pytest
import tensorflow as tf

from keras_quasiattn.lab.text import ByteTokenizer

TOKENIZER = ByteTokenizer()


def test_ids_are_bytes_plus_two_closed_and_padded():
    ids = TOKENIZER.tokenize(tf.constant([b"\x00\xff", b"", b"a"]))
    assert ids.dtype == tf.int32
    assert ids.numpy().tolist() == [[2, 257, 1], [1, 0, 0], [99, 1, 0]]
    assert TOKENIZER.vocabulary_size == 258


def test_round_trip_of_any_bytes():
    generator = random.Random(0)
    strings = [bytes([value]) for value in range(256)] + [
        bytes(range(256)),
        b"",
        "übung ٣".encode(),
        b"\xff\xfe\x00",
    ]
    strings += [generator.randbytes(generator.randrange(20)) for _ in range(50)]
    ids = TOKENIZER.tokenize(tf.constant(strings))
    assert TOKENIZER.detokenize(ids).numpy().tolist() == strings


@pytest.mark.parametrize(
    ("max_length", "rows"),
    [
        (1, [[1], [1]]),
        (3, [[99, 100, 1], [99, 1, 0]]),
        (4, [[99, 100, 101, 1], [99, 1, 0, 0]]),
        (9, None),
    ],
)
def test_long_strings_lose_their_tail_but_not_their_end(max_length, rows):
    strings = tf.constant(["abc", "a"])
    whole = TOKENIZER.tokenize(strings).numpy().tolist()
    assert TOKENIZER.tokenize(strings, max_length).numpy().tolist() == (rows or whole)


def test_padding_to_the_longest_allowed_gives_a_static_shape():
    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def encode(strings):
        ids = TOKENIZER.tokenize(strings, 6, pad_to_max_length=True)
        assert ids.shape.as_list() == [None, 6]
        return ids

    assert encode(tf.constant(["ab"])).numpy().tolist() == [[99, 100, 1, 0, 0, 0]]
    assert encode(tf.constant(["abcdefgh"])).numpy().tolist() == [[99, 100, 101, 102, 103, 1]]


@pytest.mark.parametrize("fixed", [False, True])
def test_empty_batch(fixed):
    ids = TOKENIZER.tokenize(tf.constant([], tf.string), 5, pad_to_max_length=fixed)
    assert ids.dtype == tf.int32 and ids.shape[0] == 0 and (ids.shape[1] == 5) >= fixed
    assert TOKENIZER.detokenize(ids).shape == (0,)


def test_decoding_stops_at_the_first_end_and_skips_what_is_no_byte():
    ids = tf.constant(
        [[99, 1, 100, 1], [0, 99, 0, 100], [1, 99, 99, 99], [0, 0, 0, 0], [99, 258, -1, 100]]
    )
    assert TOKENIZER.detokenize(ids).numpy().tolist() == [b"a", b"ab", b"", b"", b"ab"]


def test_decoding_keeps_leading_axes():
    ids = tf.constant([[[99, 1], [100, 101]]], tf.int64)
    assert TOKENIZER.detokenize(ids).numpy().tolist() == [[b"a", b"bc"]]
    assert TOKENIZER.detokenize(tf.zeros([2, 0], tf.int32)).numpy().tolist() == [b"", b""]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"max_length": 0}, "max_length must be at least 1.*got 0"),
        ({"pad_to_max_length": True}, "max_length; got None"),
    ],
)
def test_impossible_lengths_are_refused(arguments, complaint):
    with pytest.raises(ValueError, match=complaint):
        TOKENIZER.tokenize(tf.constant(["a"]), **arguments)
