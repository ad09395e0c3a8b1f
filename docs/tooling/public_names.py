"""Lists the rest of a package on its page of the reference.

`::: keras_quasiattn.ops.*` is replaced by an entry for each public name of `ops` that the page does
not name by itself, in alphabetical order. A new layer or op is thus documented without a line.
"""

import ast
import re
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[2]
_REST = re.compile(r"^::: (keras_quasiattn\.[\w.]+?)\.\*$", re.MULTILINE)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by MkDocs with the Markdown of each page."""

    def rest(found: re.Match[str]) -> str:
        package = found[1]
        named = set(re.findall(rf"^::: {re.escape(package)}\.(\w+)$", markdown, re.MULTILINE))
        missing = sorted(set(public_names(package)) - named)
        return "\n\n".join(f"::: {package}.{name}" for name in missing)

    return _REST.sub(rest, markdown)


def public_names(package: str) -> list[str]:
    """`__all__` of a package, without importing it."""
    place = _ROOT.joinpath(*package.split("."))
    path = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    source = path.read_text(encoding="utf-8")
    (names,) = (
        ast.literal_eval(node.value)
        for node in ast.parse(source).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    )
    return list(names)
