"""Converts the package's docstrings to Markdown: code blocks of examples, lists of arguments."""

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(
    r"(?:^Example:\n)?((?:^(?:>>>|\.\.\.).*\n?(?:^(?!>>>|\.\.\.)\S.*\n?)*)+)", re.MULTILINE
)
_SECTION = re.compile(r"^(Call arguments|Call returns):\n((?:^(?: {4}.*)?\n?)+)", re.MULTILINE)
_ITEM = re.compile(r"^ {4}([\w, ]+): ", re.MULTILINE)


def as_markdown(text: str) -> str:
    """Return a docstring in a form that mkdocstrings displays well."""
    text = _EXAMPLE.sub(
        lambda found: f"**Example**\n\n```pycon\n{found[1].rstrip()}\n```\n\n", text
    )
    return _SECTION.sub(_listed, text)


def _listed(found: re.Match[str]) -> str:
    items = _ITEM.sub(lambda item: f"- **`{item[1]}`** – ", found[2].rstrip())
    # Lines that are still indented belong to the item above.
    items = re.sub(r"^ {8}", "    ", items, flags=re.MULTILINE)
    return f"**{found[1]}:**\n\n{items}\n\n"


class Docstrings(griffe.Extension):
    """Rewrite every docstring when griffe reads it."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called by griffe for each module, class, function and attribute."""
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)
