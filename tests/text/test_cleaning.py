import re
from collections.abc import Callable

import pytest
import tensorflow as tf

from keras_quasiattn.lab.text import (
    CLEANINGS,
    SPAN_CLEANINGS,
    SpanTokenizer,
    SubwordTokenizer,
    VocabularyTokenizer,
    WordTokenizer,
    count_words,
    learn_subwords,
)

TEXTS = [
    "What's the difference (if any) between 'don't' and won't?!",
    "They'd've gone, they're sure they'll say `I've won''.",
    "caf\u00e9 na\u00efve \u2014 5% of $3.50, e.g. U.S.A.",
    "  tabs\tand\nlines\u0085\u00a0 ",
    "",
    "?" * 50,
]


def clean(name, text):
    return CLEANINGS[name](tf.constant([text])).numpy()[0].decode()


def harvardnlp(string):
    """Apply `clean_str` as published."""
    string = re.sub(r"[^A-Za-z0-9(),!?\'\`]", " ", string)
    for clitic in ("'s", "'ve", "n't", "'re", "'d", "'ll"):
        string = re.sub(clitic, " " + clitic, string)
    for mark in (r",", r"!", r"\(", r"\)", r"\?"):
        string = re.sub(mark, f" {mark.removeprefix(chr(92))} ", string)
    return re.sub(r"\s{2,}", " ", string).strip().lower()


def harvardnlp_treebank(string):
    """Apply `clean_str_sst` as published."""
    string = re.sub(r"[^A-Za-z0-9(),!?\'\`]", " ", string)
    return re.sub(r"\s{2,}", " ", string).strip().lower()


@pytest.mark.parametrize("text", TEXTS)
def test_questions_and_treebank_are_cleaned_as_harvardnlp_does(text):
    assert clean("questions", text) == harvardnlp(text)
    assert clean("treebank", text) == harvardnlp_treebank(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I'd say: <br />'B\u00cate' isn't bad!", "i 'd say : ' b\u00eate ' is n't bad !"),
        ("don'ts a<b 3.5\u20ac", "don ' ts a < b 3 . 5 \u20ac"),
        (
            "\u041f\u0440\u0438\u0432\u0435\u0442, \u4e16\u754c",
            "\u043f\u0440\u0438\u0432\u0435\u0442 , \u4e16\u754c",
        ),
        ("a\u00a0b\u2003c\x01d", "a b c d"),
        ("", ""),
    ],
)
def test_words_of_any_script(text, expected):
    assert clean("words", text) == expected


@pytest.mark.parametrize("name", CLEANINGS)
def test_bytes_that_are_not_utf8_are_no_error(name):
    words = clean(name, b"good \xff\xfe film").split()
    assert (words[0], words[-1]) == ("good", "film")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("i <3 you and he is > me", "i < 3 you and he is > me"),
        ("a < b and c > d", "a < b and c > d"),
        ("a <b and c> d", "a < b and c > d"),
        ("if x<y then z>y", "if x < y then z > y"),
        ("<unk> of <name@mail.org>", "< unk > of < name @ mail . org >"),
        ("List<String> <- <br", "list < string > < - < br"),
        ("<brx> < br> <br x> <3>", "< brx > < br > < br x > < 3 >"),
        ("see<BR>it<br/>twice<br />or</p >once", "see it twice or once"),
        ('<p class=x>one <a href="http://a.b/c?d=e&f=g#and-so-on-for-long">two</a></p>', "one two"),
        ("<input disabled value = 'a'><!-- no --><!DOCTYPE html>", ""),
        ("<h1>a</h1><td nowrap colspan=2>b", "a b"),
        ("<img src=a.png alt='x > y'>c<img alt=\"d>e\"/>", "c"),
    ],
)
def test_text_between_signs_was_deleted_that_is_no_tag(text, expected):
    assert clean("words", text) == expected
    before = CLEANINGS["words"](tf.constant([text]), 1).numpy()[0].decode()
    assert before == re.sub("<[^<>]{1,40}>", " ", before)  # as runs of version 1 still do


VOCABULARY = ["[PAD]", "[UNK]", "isn", "##n", "don", "'", "t", "n't", "is", "do", "it", "'s", "the"]
APOSTROPHES = ["\u2019", "\u02bc", "\uff07"]
MAKERS: dict[str, Callable[..., VocabularyTokenizer]] = {
    **{
        name: lambda name=name, **more: WordTokenizer(VOCABULARY, name, **more)
        for name in CLEANINGS
    },
    **{
        f"spans of {name}": lambda name=name, **more: SpanTokenizer(VOCABULARY, name, **more)
        for name in SPAN_CLEANINGS
    },
    "subwords": lambda **more: SubwordTokenizer(VOCABULARY, **more),
}


@pytest.mark.parametrize("sign", APOSTROPHES)
@pytest.mark.parametrize("name", MAKERS)
def test_typographic_apostrophes_made_other_words(name, sign):
    text = "It's 'the' don't, isn't"
    tokenizer = MAKERS[name]()
    both = tf.constant([text, text.replace("'", sign)])
    plain, typeset = tokenizer.split(both).to_list()
    assert plain == typeset and any(b"'" in word for word in plain)
    if sign == APOSTROPHES[0]:
        in_graph = tf.function(tokenizer.split)  # as in a SavedModel
        assert in_graph(both).to_list() == [plain, plain]
        before, other = MAKERS[name](text_version=1).split(both).to_list()
        assert before == plain and other != plain


@pytest.mark.parametrize("sign", APOSTROPHES)
def test_places_of_typographic_apostrophes_are_of_the_text_itself(sign):
    text = f"isn{sign}t it"
    words, starts, ends = SpanTokenizer(VOCABULARY).split_with_offsets(tf.constant([text]))
    assert words.to_list() == [[b"isn", b"'", b"t", b"it"]]
    found = [
        text.encode()[start:end].decode()
        for start, end in zip(starts.to_list()[0], ends.to_list()[0], strict=True)
    ]
    assert found == ["isn", sign, "t", "it"]


def test_vocabularies_are_learned_as_tokenizers_read():
    texts = ["don\u2019t", "it\u2019s the"] * 9
    assert set(count_words(texts, "words")) >= {"n't", "'s"}
    assert not set(count_words(texts, "words", 1)) & {"n't", "'s"}
    assert "'" in learn_subwords(texts, size=60)


@pytest.mark.long
def test_an_earlier_run_learns_the_subwords_of_its_text_processing():
    assert "'" not in learn_subwords(["don\u2019t"] * 9, size=60, text_version=1)
