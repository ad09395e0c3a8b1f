"""Make untrusted text safe to show on a page, in a figure or on a terminal."""

import unicodedata

_LONGEST = 20
# Control characters, lone surrogates, line and paragraph separators.
_SPOILING = ("Cc", "Cs", "Zl", "Zp")


def readable(text: str, longest: int = _LONGEST) -> str:
    r"""Cut the text to `longest` characters; replace control characters and line breaks.

    >>> readable("a\x1b[2Jb"), readable("x" * 50, 5)
    ('a\ufffd[2Jb', 'xxxx…')
    """
    text = text if len(text) <= longest else f"{text[: longest - 1]}…"
    return "".join("\ufffd" if unicodedata.category(one) in _SPOILING else one for one in text)
