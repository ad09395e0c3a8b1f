import sys
import unicodedata

import pytest
import tensorflow as tf
import without_keras

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.text import SentencePieceTokenizer, learn_sentence_pieces

TEXTS = [
    "Zwei junge weiße Männer sind im Freien, in der Nähe vieler Büsche.",
    "Two young, White males are outside near many bushes.",
    "Ein Hund (braun) rennt über die Wiese!",
    'A brown dog runs on the grass, and a man says: "Stop!"',
] * 5
UNSEEN = [
    *("世界 Привет", "Nguyễn 👩\u200d👧", "<pad> </s> <0x41> [UNK]", "½ ﬁ \ufffd"),
    *("(a)  b", "ÅBC xyz 0123"),
]


@pytest.fixture(scope="module")
def tokenizer():
    return SentencePieceTokenizer(learn_sentence_pieces(TEXTS, size=360))


def back(tokenizer, texts):
    ids = tokenizer.tokenize(tf.constant(texts, tf.string))
    return [text.decode() for text in tokenizer.detokenize(ids).numpy()]


def test_a_missing_sentencepiece_was_a_traceback(monkeypatch):
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    with pytest.raises(UserError, match=r"sentencepiece is not installed: pip install 'keras-qu"):
        learn_sentence_pieces(TEXTS, size=360)


def test_case_punctuation_and_any_script_come_back(tokenizer):
    texts = [*TEXTS[:4], *UNSEEN, ""]
    assert back(tokenizer, texts) == [" ".join(text.split()) for text in texts]


def test_what_comes_back_is_the_normalized_text(tokenizer):
    texts = [
        " a\t\nb\u00a0c\u3000d\x00 ",
        unicodedata.normalize("NFD", "Việt Nam"),
        b"bad \xff\xfe",
        "x ▁y",
        " \n ",
    ]
    normal = [text.decode() for text in tokenizer.normalize(tf.constant(texts)).numpy()]
    assert normal == ["a b c d", "Việt Nam", "bad \ufffd\ufffd", "x y", ""]
    assert back(tokenizer, texts) == normal


def test_no_text_is_padding_or_unknown_and_each_ends_once(tokenizer):
    for text in [*TEXTS[:4], *UNSEEN]:
        *ids, end = tokenizer.tokenize(tf.constant([text])).numpy()[0].tolist()
        assert end == tokenizer.eos_id and min(ids) > 2 and max(ids) < tokenizer.vocabulary_size
    assert tokenizer.tokenize(tf.constant(["", TEXTS[0]])).numpy()[0, :2].tolist() == [1, 0]


def test_learned_pieces_are_longer_than_characters(tokenizer):
    assert tokenizer.vocabulary_size <= 360
    assert tokenizer.tokenize(tf.constant(TEXTS[:1])).shape[1] < 0.8 * len(TEXTS[0])


def test_setting_a_seed_does_not_end_a_graph_that_tokenizes(tokenizer):
    examples = (
        tf.data.Dataset.from_tensor_slices(["A dog"]).batch(1).map(tokenizer.tokenize).repeat()
    )
    before = next(iterator := examples.as_numpy_iterator()).tolist()
    tf.random.set_seed(3)
    assert next(iterator).tolist() == next(examples.as_numpy_iterator()).tolist() == before


def test_lengths(tokenizer):
    texts = tf.constant([TEXTS[0], ""])
    whole = tokenizer.tokenize(texts)
    cut = tokenizer.tokenize(texts, 4)
    assert cut.numpy().tolist() == [[*whole.numpy()[0, :3].tolist(), 1], [1, 0, 0, 0]]
    assert tokenizer.tokenize(texts, tf.constant(100), pad_to_max_length=True).shape == (2, 100)
    assert tokenizer.tokenize(tf.constant(["Hund " * 10_000]), 50).shape == (1, 50)


def test_what_follows_the_end_is_not_read(tokenizer):
    ids = tokenizer.tokenize(tf.constant(["A dog"]))
    longer = tf.concat([ids, ids, [[0, 0]]], axis=1)
    assert tokenizer.detokenize(longer).numpy().tolist() == [b"A dog"]
    assert tokenizer.detokenize(ids[:, :-1]).numpy().tolist() == [b"A dog"]


def test_bytes_that_form_no_character_are_text_all_the_same(tokenizer):
    lone_lead_byte = 3 + 0xC3
    assert tokenizer.detokenize(tf.constant([[lone_lead_byte, 1]])).numpy()[0].decode() == "\ufffd"


def test_the_same_texts_give_the_same_model_as_bytes_or_strings():
    one = learn_sentence_pieces(TEXTS, size=320)
    assert one == learn_sentence_pieces([text.encode() for text in TEXTS], size=320)
    assert one != learn_sentence_pieces(TEXTS, size=330)


def test_a_sentence_of_ten_thousand_words_is_passed_over_in_learning():
    assert learn_sentence_pieces([*TEXTS, "Katze " * 10_000], size=320) == learn_sentence_pieces(
        TEXTS, size=320
    )


@pytest.mark.parametrize(
    ("texts", "size", "reason"),
    [
        # These had the library's message, with a line of its source and options of its command.
        (TEXTS, 20, r"their characters need \d+: set data.vocabulary_size to at least that$"),
        ([], 320, "each is empty or has more than 4,192 bytes; split long texts$"),
        (["", " "], 320, "each is empty or has"),
        (["Katze " * 1000], 320, "each is empty or has"),
    ],
)
def test_nothing_to_learn(texts, size, reason):
    said = f"^no vocabulary of {size} pieces can be learned from {len(texts)} texts: {reason}"
    with pytest.raises(UserError, match=said):
        learn_sentence_pieces(texts, size=size)


@pytest.mark.parametrize("model", [b"", b"junk" * 9])
def test_damaged_models_are_refused(model):
    with pytest.raises(ValueError, match="model is not a SentencePiece model"):
        SentencePieceTokenizer(model)


def test_it_works_both_ways_in_a_saved_model_that_another_process_loads(tokenizer, tmp_path):
    module = tf.Module()
    module.echo = tf.function(
        lambda texts: tokenizer.detokenize(tokenizer.tokenize(texts, 40)),
        input_signature=[tf.TensorSpec((None,), tf.string)],
    )
    tf.saved_model.save(module, str(tmp_path))
    answer = without_keras.ask(tmp_path, [["Ein Hund (世)!", ""]], "echo")["output"]
    assert [text.decode() for text in answer] == ["Ein Hund (世)!", ""]
