"""Text to words separated by single spaces, by regular expressions inside the graph."""

from collections.abc import Callable
from typing import Final

import tensorflow as tf

_CLITICS = "('s|'ve|n't|'re|'d|'ll)"
# What parts words, and what is a word by itself; everything else, letters, marks and digits, makes words.
SPACE: Final = r"[\s\pZ\pC]"
PIECE: Final = r"[^\pL\pM\pN\s\pZ\pC]"


def clean_questions(strings: tf.Tensor) -> tf.Tensor:
    """Lower-case ASCII words with clitics and , ! ( ) ? set apart; any other character parts words.

    >>> clean_questions(tf.constant(["What's Oz (the wizard)?"])).numpy()[0].decode()
    "what 's oz ( the wizard ) ?"

    Source: `clean_str` of harvardnlp/sent-conv-torch, after Kim 2014; used there for TREC.
    """
    strings = tf.strings.regex_replace(_valid(strings), "[^A-Za-z0-9(),!?'`]", " ")
    strings = tf.strings.regex_replace(strings, _CLITICS, r" \1")
    strings = tf.strings.regex_replace(strings, "([,!()?])", r" \1 ")
    return tf.strings.lower(_single_spaces(strings))


def clean_treebank(strings: tf.Tensor) -> tf.Tensor:
    """Lower-case ASCII for text that is tokenized already: only other characters go.

    >>> clean_treebank(tf.constant(["It 's n't a b\u00e9te film ."])).numpy()[0].decode()
    "it 's n't a b te film"

    Source: `clean_str_sst` of harvardnlp/sent-conv-torch; used there for the Stanford Sentiment Treebank.
    """
    strings = tf.strings.regex_replace(_valid(strings), "[^A-Za-z0-9(),!?'`]", " ")
    return tf.strings.lower(_single_spaces(strings))


def clean_words(strings: tf.Tensor) -> tf.Tensor:
    """Lower-case words of any script; clitics and every other character become words, HTML tags go.

    >>> clean_words(tf.constant(["I'd say: <br />'Bête' isn't bad!"])).numpy()[0].decode()
    "i 'd say : ' bête ' is n't bad !"
    """
    strings = tf.strings.lower(_valid(strings), encoding="utf-8")
    strings = tf.strings.regex_replace(strings, "<[^<>]{1,40}>|\x01", " ")
    # The apostrophe of a clitic hides behind \x01 while the others are set apart.
    strings = tf.strings.regex_replace(strings, r"n'(t)\b", "n\x01\\1")
    strings = tf.strings.regex_replace(strings, r"'(s|ve|re|d|ll|m)\b", "\x01\\1")
    strings = tf.strings.regex_replace(strings, r"([^\pL\pM\pN\s\x01])", r" \1 ")
    strings = tf.strings.regex_replace(strings, r"(n?\x01)", r" \1")
    strings = tf.strings.regex_replace(strings, "\x01", "'")
    return _single_spaces(strings)


def clean_cased_pieces(strings: tf.Tensor) -> tf.Tensor:
    """Words of any script as they are written; every other character becomes a word.

    >>> clean_cased_pieces(tf.constant(["Bête-de 24–10, isn't it?"])).numpy()[0].decode()
    "Bête - de 24 – 10 , isn ' t it ?"
    """
    strings = tf.strings.regex_replace(_valid(strings), f"({PIECE})", r" \1 ")
    return tf.strings.strip(tf.strings.regex_replace(strings, f"{SPACE}+", " "))


def clean_pieces(strings: tf.Tensor) -> tf.Tensor:
    """The same in lower case.

    >>> clean_pieces(tf.constant(["Bête-de"])).numpy()[0].decode()
    'bête - de'
    """
    return tf.strings.lower(clean_cased_pieces(strings), encoding="utf-8")


CLEANINGS: Final[dict[str, Callable[[tf.Tensor], tf.Tensor]]] = {
    "questions": clean_questions,
    "treebank": clean_treebank,
    "words": clean_words,
    "pieces": clean_pieces,
    "cased_pieces": clean_cased_pieces,
}


def _valid(strings: tf.Tensor) -> tf.Tensor:
    """Bytes that are not UTF-8 become U+FFFD, which no cleaning takes for a letter."""
    return tf.strings.unicode_transcode(strings, "UTF-8", "UTF-8")


def _single_spaces(strings: tf.Tensor) -> tf.Tensor:
    return tf.strings.strip(tf.strings.regex_replace(strings, r"[\s\pZ]+", " "))
