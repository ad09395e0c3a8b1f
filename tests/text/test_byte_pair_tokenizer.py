import json
import random
import re

import pytest
import tensorflow as tf
from test_encoder_tokenizer import generated, real, texts_to_read

from keras_quasiattn.lab.text.encoder_tokenizers import BytePairTokenizer, byte_characters

SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
ODD = [
    *("", " ", "   ", "  two  spaces  ", " \n\n x\t\ty \n", "a" * 1001, "aaa aaaa", "\0\0 \0a  \0"),
    *("  's  'll don't I'VE", "12345 678 x9", "\u0661\u0662", " \u2003 x", "\v\x1c\x85y", "\u096c"),
    *("<s> </s> <pad>", "\ufeffx", "e\u0301\u0300", "\U0001f468\u200d\U0001f469", "\u3000x"),
    "".join(random.Random(0).choices("thesandmoel", k=3000)),
]


@pytest.fixture(scope="module")
def model():
    """Return RoBERTa's own tokenizer, with a vocabulary learned from texts."""
    tokenizers = pytest.importorskip("tokenizers")
    bytewise = tokenizers.pre_tokenizers.ByteLevel
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = bytewise(add_prefix_space=False)
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=900, initial_alphabet=bytewise.alphabet(), show_progress=False
    )
    made.train_from_iterator([*real()[:400], *generated(60)], trainer)
    return made


def parts(model):
    """Return the ids by piece, after the special ones, and the merges."""
    learned = json.loads(model.to_str())["model"]
    pieces = [*SPECIAL, *sorted(learned["vocab"], key=learned["vocab"].get)]
    merges = [one if isinstance(one, str) else " ".join(one) for one in learned["merges"]]
    return {piece: number for number, piece in enumerate(pieces)}, merges


def ours(ids, merges):
    pieces = list(ids)
    pieces[0], pieces[1] = pieces[1], pieces[0]
    return BytePairTokenizer(pieces, merges)


def pieces_of(tokenizer, texts):
    rows = tokenizer.split(tf.constant(texts)).to_list()
    return [[piece.decode() for piece in row] for row in rows]


def compare(model, texts):
    keras_hub = pytest.importorskip("keras_hub")
    ids, merges = parts(model)
    found = pieces_of(ours(ids, merges), texts)
    assert found == [one.tokens for one in model.encode_batch(texts, add_special_tokens=False)]
    # In a graph, KerasHub's tokenizer ends a text at a NUL, drops the digit U+096C, which it uses
    # as a marker, strips trailing spaces, and returns ids of special tokens. In Python, it splits
    # numbers after three digits, as Llama does and RoBERTa does not.
    theirs = keras_hub.models.RobertaTokenizer(ids, merges)
    names = {number: piece for piece, number in ids.items()}
    # It also needs a step for each merge of the longest word.
    same = [
        (text, pieces)
        for text, pieces in zip(texts, found, strict=True)
        if not re.search("\0|\u096c|</?s>|<pad>|<mask>", text)
        and text == text.rstrip()
        and len(text) < 1000
    ]
    rows = tf.function(theirs.tokenize)(tf.constant([text for text, _ in same])).to_list()
    assert len(same) > len(texts) // 3
    for (text, pieces), row in zip(same, rows, strict=True):
        assert pieces == [names[number] for number in row], text


@pytest.mark.parametrize("count", [100, pytest.param(10_000, marks=pytest.mark.complete)])
def test_ids_equal_roberta_and_keras_hub(count, model):
    compare(model, [*ODD, *texts_to_read(count)])


def test_no_text_gives_a_special_token_and_any_bytes_are_read(model):
    tokenizer = ours(*parts(model))
    texts = tf.constant([b"<s> a</s> <pad> <mask>", b"\xff\xfe a", b"\x80" * 200, b""])
    ids = tokenizer.ids(tokenizer.split(texts)).to_list()
    assert not {0, 1, 2, 3, 4} & {number for row in ids for number in row}
    characters = byte_characters()
    unseen = "".join(characters[byte] for byte in b"\xff\xfe a")
    assert "".join(tokenizer.vocabulary[number] for number in ids[1]) == unseen
    assert len("".join(tokenizer.vocabulary[number] for number in ids[2])) == 200
    assert tokenizer.tokenize(tf.constant([], tf.string)).shape == (0, 1)


LETTERS = list(byte_characters().values())


@pytest.mark.parametrize(
    ("pieces", "merges", "said"),
    [
        ([], [], "must begin with <pad>"),
        (["<s>", "<pad>", "</s>", *LETTERS], [], "must begin with <pad>"),
        (["<pad>", "<s>", *LETTERS], [], "must have </s>"),
        (["<pad>", "<s>", "</s>", *LETTERS[1:]], [], "must have '!', the piece of byte 33"),
        (["<pad>", "<s>", "</s>", *LETTERS, "a"], [], "twice"),
        (["<pad>", "<s>", "</s>", *LETTERS], ["a b"], "needs 'ab', which the vocabulary lacks"),
        (["<pad>", "<s>", "</s>", *LETTERS, "ab"], ["ab"], "must be two pieces with a space"),
    ],
)
def test_what_a_vocabulary_lacks_is_named(pieces, merges, said):
    with pytest.raises(ValueError, match=said):
        BytePairTokenizer(pieces, merges)
