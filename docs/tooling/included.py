"""Puts a table of the page of results, or a section of the README, where a page names it.

`<!-- measured: CoDA, table 2: ranking -->` is that table; `<!-- readme: The command line -->` that section.
"""

import re
from pathlib import Path
from typing import Any

_DOCS = Path(__file__).parents[1]
_NAMED = re.compile(r"<!-- (measured|readme): (.+?) -->")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by MkDocs with each page's Markdown."""
    return _NAMED.sub(lambda found: _SOURCES[found[1]](found[2]), markdown)


def table(title: str) -> str:
    """The table below a heading of the page of results.

    Raises:
        KeyError: there is no such heading.
    """
    lines = _sections(_DOCS / "results.md")[title].splitlines()
    return "\n".join(line for line in lines if line.startswith("|"))


def section(title: str) -> str:
    """What stands below a heading of the README.

    Raises:
        KeyError: there is no such heading.
    """
    return _sections(_DOCS.parent / "README.md")[title]


def _sections(file: Path) -> dict[str, str]:
    parts = re.split(r"^##+ (.+)\n", file.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


_SOURCES = {"measured": table, "readme": section}
