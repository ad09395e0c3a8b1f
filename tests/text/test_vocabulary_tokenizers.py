import numpy as np
import pytest
import tensorflow as tf
import without_keras

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.text import (
    SPAN_CLEANINGS,
    SpanTokenizer,
    SubwordTokenizer,
    WordTokenizer,
    count_words,
    learn_subwords,
    ranked_words,
    read_vocabulary,
    vocabulary_text,
)

WORDS = ["[PAD]", "[UNK]", "who", "?", "shot"]
PIECES = ["[PAD]", "[UNK]", "who", "?", "sh", "##ot"]
TOKENIZERS = [WordTokenizer(WORDS), WordTokenizer(WORDS, unknown_ids=4), SubwordTokenizer(PIECES)]
every_tokenizer = pytest.mark.parametrize(
    "tokenizer", TOKENIZERS, ids=["words", "words_hashed", "subwords"]
)


@pytest.mark.parametrize("kind", [WordTokenizer, SpanTokenizer])
def test_unknown_words_have_several_ids_by_their_hash(kind):
    names = [f"name{number}" for number in range(2000)]
    tokenizer = kind(WORDS, "pieces", unknown_ids=50)
    (ids,) = tokenizer.tokenize(tf.constant([" ".join(["who", *names, *names])])).numpy()
    assert tokenizer.vocabulary_size == len(WORDS) + 49 and ids[0] == 2
    # The same ids in every process and version: the exported graph has the same hash.
    assert ids[1:4].tolist() == [20, 52, 13]
    assert (ids[1:2001] == ids[2001:]).all()
    used, counts = np.unique(ids[1:], return_counts=True)
    assert used.tolist() == [1, *range(len(WORDS), len(WORDS) + 49)]
    assert counts.min() > 30  # of 80 each


@every_tokenizer
@pytest.mark.parametrize("text", ["[PAD]", "[UNK] [PAD]"])
def test_the_name_of_padding_in_a_text_is_not_padding(tokenizer, text):
    assert 0 not in tokenizer.tokenize(tf.constant([text])).numpy()


@every_tokenizer
def test_lengths(tokenizer):
    texts = tf.constant(["who who who who who", "?"])
    assert tokenizer.tokenize(texts).shape == (2, 5)
    assert tokenizer.tokenize(texts, 3).numpy().tolist() == [[2, 2, 2], [3, 0, 0]]
    assert tokenizer.tokenize(texts, length_multiple=4).shape == (2, 8)
    assert tokenizer.tokenize(tf.constant([""]), length_multiple=4).shape == (1, 4)
    assert tokenizer.tokenize(tf.constant([], tf.string)).shape == (0, 1)
    assert tokenizer.tokenize(tf.constant(["who " * 100_000]), 50).shape == (1, 50)


@every_tokenizer
def test_it_works_in_a_saved_model_that_another_process_loads(tokenizer, tmp_path):
    module = tf.Module()
    module.resources = tokenizer.resources
    module.answer = tf.function(
        tokenizer.tokenize, input_signature=[tf.TensorSpec((None,), tf.string)]
    )
    tf.saved_model.save(module, str(tmp_path))
    texts = ["who shot Ada, Bob and Cy?", ""]
    got = without_keras.ask(tmp_path, [texts], "answer")["output"]
    assert got.tolist() == tokenizer.tokenize(tf.constant(texts)).numpy().tolist()


@pytest.mark.parametrize("vocabulary", [[], ["who", "?"], ["[PAD]", "[UNK]", "a", "a"]])
def test_vocabulary_of_another_form(vocabulary, tmp_path):
    with pytest.raises(ValueError, match="vocabulary must"):
        WordTokenizer(vocabulary)
    with pytest.raises(UserError, match="v.txt is damaged: it must begin with"):
        read_vocabulary(vocabulary_text(vocabulary), "v.txt")


@pytest.mark.parametrize(
    ("kind", "cleaning", "known"),
    [
        (WordTokenizer, "none", "questions, treebank, words, pieces, cased_pieces"),
        (SpanTokenizer, "words", "pieces, cased_pieces"),
    ],
)
def test_unknown_cleanings_are_refused(kind, cleaning, known):
    with pytest.raises(ValueError, match=f"cleaning must be one of {known}; got '{cleaning}'"):
        kind(WORDS, cleaning)


def test_vocabulary_file_keeps_every_token():
    vocabulary = [*WORDS, "\u0085", "\u2028", "'"]
    assert read_vocabulary(vocabulary_text(vocabulary), "v.txt") == vocabulary


def test_frequent_words_come_first_and_rare_ones_only_where_known():
    texts = ["b a", "b c", "d b", b"a"]
    counts = count_words(texts, "words")
    assert ranked_words(counts, size=10)[2:] == ["b", "a", "c", "d"]
    assert ranked_words(counts, size=10, min_count=2)[2:] == ["b", "a"]
    assert ranked_words(counts, size=10, min_count=2, known={"d", "e"})[2:] == ["b", "a", "d"]
    assert ranked_words(counts, size=3) == ["[PAD]", "[UNK]", "b"]


def test_learned_subwords_cover_what_they_learned_from():
    texts = ["unseen seen under sender", "see a reader read"] * 20
    vocabulary = learn_subwords(texts, size=60)
    assert vocabulary[:2] == ["[PAD]", "[UNK]"]
    tokenizer = SubwordTokenizer(vocabulary)
    ids = tokenizer.tokenize(tf.constant([*texts[:2], "undersea"]))
    assert not (ids.numpy() == 1).any()


@pytest.mark.parametrize("texts", [["", " "], [b"\0"], ["\u200b"]], ids=repr)
def test_texts_without_a_word_stopped_the_learning_of_subwords_with_a_traceback(texts):
    with pytest.raises(
        UserError, match="no pieces can be learned from . texts: no text has a word"
    ):
        learn_subwords(texts, size=60)


# Words with their positions.
SPAN_VOCABULARY = ["[PAD]", "[UNK]", "the"]
TEXTS = [
    *("The tower: 24–10, isn't it?", "", " \t\n ", "Él comió «pan» à Zürich. 日本語 наш\u00a0дом"),
    *("a\u0301 e\u200bf \U0001f600!", b"caf\xe9 \xff noir"),
]


@pytest.mark.parametrize("cleaning", SPAN_CLEANINGS)
def test_words_are_those_of_the_cleaning(cleaning):
    texts = tf.constant(TEXTS[:-1])
    found = SpanTokenizer(SPAN_VOCABULARY, cleaning).split(texts).to_list()
    assert found == WordTokenizer(SPAN_VOCABULARY, cleaning).split(texts).to_list()


@pytest.mark.parametrize("cleaning", SPAN_CLEANINGS)
def test_places_are_of_the_string_itself(cleaning):
    texts = [text if isinstance(text, bytes) else text.encode() for text in TEXTS]
    tokens, starts, ends = SpanTokenizer(SPAN_VOCABULARY, cleaning).split_with_offsets(
        tf.constant(texts)
    )
    rows = zip(texts, tokens.to_list(), starts.to_list(), ends.to_list(), strict=True)
    for text, words, begins, stops in rows:
        for word, start, end in zip(words, begins, stops, strict=True):
            slice_ = text[start:end].decode("utf-8", "replace")
            assert (slice_.lower() if cleaning == "pieces" else slice_) == word.decode(
                "utf-8", "replace"
            )
        assert begins == sorted(begins)
        assert all(a <= b for a, b in zip(stops, begins[1:], strict=False))
