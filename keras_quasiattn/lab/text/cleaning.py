"""Clean text into words separated by single spaces, with regular expressions inside the graph.

Every cleaning takes the version of the text processing. In version 1, which old runs use, U+2019 is
not an apostrophe, and `clean_words` drops everything between < and >.
"""

from collections.abc import Callable
from typing import Final

import tensorflow as tf

_CLITICS = "('s|'ve|n't|'re|'d|'ll)"
# SPACE separates words, and a PIECE is a word alone. All else (letters, marks, digits) forms words.
SPACE: Final = r"[\s\pZ\pC]"
PIECE: Final = r"[^\pL\pM\pN\s\pZ\pC]"
TEXT_VERSION: Final = 2  # new runs use this version and record it
APOSTROPHES: Final = "[\u2019\u02bc\uff07]"  # other characters that are used for '
_TAG_NAMES = (
    "a abbr acronym address applet area article aside audio b base basefont bdi bdo big blockquote "
    "body br button canvas caption center cite code col colgroup data datalist dd del details dfn "
    "dialog dir div dl dt em embed fieldset figcaption figure font footer form frame frameset "
    "h[1-6] head header hgroup hr html i iframe img input ins kbd label legend li link main map "
    "mark marquee menu meta meter nav nobr noframes noscript object ol optgroup option output p "
    "param picture pre progress q rp rt ruby s samp script search section select slot small source "
    "span strike strong style sub summary sup svg table tbody td template textarea tfoot th thead "
    "time title tr track tt u ul var video wbr"
).replace(" ", "|")
_ATTRIBUTE = (
    r"""\s+(?:[a-z][a-z0-9:_-]*\s*=\s*(?:"[^"<]*"|'[^'<]*'|[^\s"'<>]+)|"""
    r"async|autoplay|checked|compact|controls|defer|disabled|hidden|ismap|loop|multiple|muted|"
    r"noshade|nowrap|open|readonly|required|reversed|selected)"
)
_TAGS = {
    1: "<[^<>]{1,40}>",
    TEXT_VERSION: f"</?(?:{_TAG_NAMES})(?:{_ATTRIBUTE})*\\s*/?>|<!--[^<>]*-->|<!doctype[^<>]*>",
}


def apostrophes(strings: tf.Tensor, version: int = TEXT_VERSION) -> tf.Tensor:
    """Replace other apostrophes by the ASCII one."""
    if version == 1:
        return strings
    return tf.strings.regex_replace(strings, APOSTROPHES, "'")


def clean_questions(strings: tf.Tensor, version: int = TEXT_VERSION) -> tf.Tensor:
    """Lower-case ASCII words and split off clitics and the punctuation , ! ( ) ? as words.

    Letters, digits, apostrophes and ` are also kept; all other characters become spaces.

    >>> clean_questions(tf.constant(["What's Oz (the wizard)?"])).numpy()[0].decode()
    "what 's oz ( the wizard ) ?"

    Source: `clean_str` of harvardnlp/sent-conv-torch, after Kim 2014; used there for TREC.
    """
    strings = tf.strings.regex_replace(_valid(strings, version), "[^A-Za-z0-9(),!?'`]", " ")
    strings = tf.strings.regex_replace(strings, _CLITICS, r" \1")
    strings = tf.strings.regex_replace(strings, "([,!()?])", r" \1 ")
    return tf.strings.lower(_single_spaces(strings))


def clean_treebank(strings: tf.Tensor, version: int = TEXT_VERSION) -> tf.Tensor:
    """Lower-case ASCII text that is already tokenized.

    Letters, digits, apostrophes and ( ) , ! ? ` are kept; all other characters become spaces.

    >>> clean_treebank(tf.constant(["It 's n't a b\u00e9te film ."])).numpy()[0].decode()
    "it 's n't a b te film"

    Source: `clean_str_sst` of harvardnlp/sent-conv-torch; used there for the Stanford Sentiment
    Treebank.
    """
    strings = tf.strings.regex_replace(_valid(strings, version), "[^A-Za-z0-9(),!?'`]", " ")
    return tf.strings.lower(_single_spaces(strings))


def clean_words(strings: tf.Tensor, version: int = TEXT_VERSION) -> tf.Tensor:
    """Lower-case words of any script, split off clitics and other characters, and drop HTML tags.

    A tag is the name of an HTML element and its attributes, if any, between < and >.

    >>> clean_words(tf.constant(["I'd say: <br />'Bête' isn’t bad <3!"])).numpy()[0].decode()
    "i 'd say : ' bête ' is n't bad < 3 !"
    """
    strings = tf.strings.lower(_valid(strings, version), encoding="utf-8")
    strings = tf.strings.regex_replace(strings, f"{_TAGS[version]}|\x01", " ")
    # \x01 stands for a clitic's apostrophe while all other apostrophes are split off.
    strings = tf.strings.regex_replace(strings, r"n'(t)\b", "n\x01\\1")
    strings = tf.strings.regex_replace(strings, r"'(s|ve|re|d|ll|m)\b", "\x01\\1")
    strings = tf.strings.regex_replace(strings, r"([^\pL\pM\pN\s\x01])", r" \1 ")
    strings = tf.strings.regex_replace(strings, r"(n?\x01)", r" \1")
    strings = tf.strings.regex_replace(strings, "\x01", "'")
    return _single_spaces(strings)


def clean_cased_pieces(strings: tf.Tensor, version: int = TEXT_VERSION) -> tf.Tensor:
    """Keep words of any script as written; make every other character a word.

    >>> clean_cased_pieces(tf.constant(["Bête-de 24–10, isn't it?"])).numpy()[0].decode()
    "Bête - de 24 – 10 , isn ' t it ?"
    """
    strings = tf.strings.regex_replace(_valid(strings, version), f"({PIECE})", r" \1 ")
    return tf.strings.strip(tf.strings.regex_replace(strings, f"{SPACE}+", " "))


def clean_pieces(strings: tf.Tensor, version: int = TEXT_VERSION) -> tf.Tensor:
    """Do the same as `clean_cased_pieces`, in lower case.

    >>> clean_pieces(tf.constant(["Bête-de"])).numpy()[0].decode()
    'bête - de'
    """
    return tf.strings.lower(clean_cased_pieces(strings, version), encoding="utf-8")


CLEANINGS: Final[dict[str, Callable[..., tf.Tensor]]] = {
    "questions": clean_questions,
    "treebank": clean_treebank,
    "words": clean_words,
    "pieces": clean_pieces,
    "cased_pieces": clean_cased_pieces,
}


def _valid(strings: tf.Tensor, version: int) -> tf.Tensor:
    """Replace bytes that are not UTF-8 by U+FFFD, which no cleaning treats as a letter."""
    return apostrophes(tf.strings.unicode_transcode(strings, "UTF-8", "UTF-8"), version)


def _single_spaces(strings: tf.Tensor) -> tf.Tensor:
    return tf.strings.strip(tf.strings.regex_replace(strings, r"[\s\pZ]+", " "))
