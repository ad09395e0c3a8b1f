"""Texts of others where a control character or a very long one would spoil the page, the figure or the terminal."""

import unicodedata

_LONGEST = 20
# Control characters, half surrogate pairs, and what ends a line or paragraph.
_SPOILING = ("Cc", "Cs", "Zl", "Zp")


def readable(text: str, longest: int = _LONGEST) -> str:
    r"""The text on one line, what cannot be shown replaced, cut where it is too long.

    >>> readable("a\x1b[2Jb"), readable("x" * 50, 5)
    ('a\ufffd[2Jb', 'xxxx…')
    """
    text = text if len(text) <= longest else f"{text[: longest - 1]}…"
    return "".join("\ufffd" if unicodedata.category(one) in _SPOILING else one for one in text)
