"""Inserts a table of the results page wherever a page names it.

`<!-- measured: CoDA, table 2: ranking -->` is replaced by that table.
"""

import re
from pathlib import Path
from typing import Any

_RESULTS = Path(__file__).parents[1] / "results.md"
_NAMED = re.compile(r"<!-- measured: (.+?) -->")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by MkDocs with the Markdown of each page."""
    return _NAMED.sub(lambda found: table(found[1]), markdown)


def table(title: str) -> str:
    """The table below a heading of the results page.

    Raises:
        KeyError: there is no such heading.
    """
    parts = re.split(r"^##+ (.+)\n", _RESULTS.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    sections = dict(zip(parts[::2], parts[1::2], strict=True))
    return "\n".join(line for line in sections[title].splitlines() if line.startswith("|"))
