import re

import pytest
import tensorflow as tf

from keras_quasiattn.text import CLEANINGS

TEXTS = [
    "What's the difference (if any) between 'don't' and won't?!",
    "They'd've gone, they're sure they'll say `I've won''.",
    "caf\u00e9 na\u00efve \u2014 5% of $3.50, e.g. U.S.A.",
    "  tabs\tand\nlines\u0085\u00a0 ",
    "",
    "?" * 50,
]


def clean(name: str, text: str | bytes) -> str:
    return CLEANINGS[name](tf.constant([text])).numpy()[0].decode()


def harvardnlp(string: str) -> str:
    """`clean_str` as it is published."""
    string = re.sub(r"[^A-Za-z0-9(),!?\'\`]", " ", string)
    for clitic in ("'s", "'ve", "n't", "'re", "'d", "'ll"):
        string = re.sub(clitic, " " + clitic, string)
    for mark in (r",", r"!", r"\(", r"\)", r"\?"):
        string = re.sub(mark, f" {mark.removeprefix(chr(92))} ", string)
    return re.sub(r"\s{2,}", " ", string).strip().lower()


def harvardnlp_treebank(string: str) -> str:
    """`clean_str_sst` as it is published."""
    string = re.sub(r"[^A-Za-z0-9(),!?\'\`]", " ", string)
    return re.sub(r"\s{2,}", " ", string).strip().lower()


@pytest.mark.parametrize("text", TEXTS)
def test_questions_and_treebank_are_cleaned_as_harvardnlp_does(text: str) -> None:
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
def test_words_of_any_script(text: str, expected: str) -> None:
    assert clean("words", text) == expected


@pytest.mark.parametrize("name", CLEANINGS)
def test_bytes_that_are_not_utf8_are_no_error(name: str) -> None:
    words = clean(name, b"good \xff\xfe film").split()
    assert (words[0], words[-1]) == ("good", "film")
