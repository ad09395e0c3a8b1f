"""Inserts a table of a results page wherever a page names it.

The line `[Measured](../results/coda.md) <!-- measured: coda 2-wikiqa -->` is replaced by the table
of that name on the page `results/coda.md`; whoever reads the Markdown itself has the link.
"""

import re
from pathlib import Path
from typing import Any

_RESULTS = Path(__file__).parents[1] / "results"
_NAMED = re.compile(r"^\[[^]\n]+\]\(\S+\) <!-- measured: (\S+) (\S+) -->$", re.MULTILINE)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by MkDocs with the Markdown of each page."""
    return _NAMED.sub(lambda found: table(found[1], found[2]), markdown)


def table(page: str, name: str) -> str:
    """Return the rows of a table of a results page.

    Raises:
        ValueError: the page has no such table.
    """
    text = (_RESULTS / f"{page}.md").read_text(encoding="utf-8")
    start = text.index(f"<!-- table: {name} -->")
    section = text[start : text.index("<!-- end of table -->", start)]
    return "\n".join(line for line in section.splitlines() if line.startswith("|"))
