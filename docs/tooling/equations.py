"""Converts equations to MathML when the pages are built: no script or network in the browser."""

import html
import re
from typing import Any

from latex2mathml.converter import convert

_EQUATION = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)


def on_page_content(content: str, **_: Any) -> str:
    """Called by MkDocs with the HTML of each page."""

    def mathml(found: re.Match[str]) -> str:
        display = "block" if found[2] == "[" else "inline"
        return (
            f"<{found[1]}>{convert(html.unescape(found[3]).strip(), display=display)}</{found[1]}>"
        )

    return _EQUATION.sub(mathml, content)
