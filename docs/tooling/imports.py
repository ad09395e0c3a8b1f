"""Draw which folders of the package import which: `python docs/tooling/imports.py` writes the SVG.

A box is a folder or file directly in the package or, with `python docs/tooling/imports.py
attention`, directly in `attention`. It stands above everything that it imports, so every arrow
points down. Its row is the length of the longest chain of imports below it.
"""

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs" / "images"
WIDTH, HEIGHT, GAP_X, GAP_Y = 150, 34, 22, 46


def parts(folder: Path) -> dict[str, list[Path]]:
    """Return the Python files of each box, by the name of the box."""
    found: dict[str, list[Path]] = {}
    for path in sorted(folder.rglob("*.py")):
        name = path.relative_to(folder).parts[0].removesuffix(".py")
        if not name.startswith("_"):
            found.setdefault(name, []).append(path)
    return found


def executed(node: ast.AST) -> Iterator[ast.AST]:
    """Return a syntax tree's nodes, without those for type checkers only."""
    yield node
    for child in ast.iter_child_nodes(node):
        if not (isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"):
            yield from executed(child)


def imports(folder: Path, files: dict[str, list[Path]]) -> dict[str, set[str]]:
    """Return the other boxes that each box imports from."""
    prefix = ".".join(folder.relative_to(ROOT).parts) + "."
    found = {}
    for name, paths in files.items():
        modules = {
            f"{node.module}.{alias.name}."
            for path in paths
            for node in executed(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.ImportFrom) and node.module
            for alias in node.names
        }
        inside = {
            module.removeprefix(prefix).split(".")[0]
            for module in modules
            if module.startswith(prefix)
        }
        found[name] = inside & files.keys() - {name}
    return found


def rows_of(edges: dict[str, set[str]]) -> list[list[str]]:
    """Return the boxes by row, from the longest import chains down to boxes without imports."""

    @cache
    def depth(name: str) -> int:
        return 1 + max((depth(other) for other in edges[name]), default=-1)

    deepest = max(map(depth, edges))
    return [sorted(name for name in edges if depth(name) == row) for row in range(deepest, -1, -1)]


def picture(folder: Path) -> str:
    """Return the drawing of one folder as SVG."""
    files = parts(folder)
    edges = imports(folder, files)
    rows = rows_of(edges)
    width = max(map(len, rows)) * (WIDTH + GAP_X) + GAP_X
    height = len(rows) * (HEIGHT + GAP_Y)
    places = {}
    for row, names in enumerate(rows):
        left = (width - len(names) * (WIDTH + GAP_X) + GAP_X) / 2
        for column, name in enumerate(names):
            places[name] = left + column * (WIDTH + GAP_X), GAP_Y / 2 + row * (HEIGHT + GAP_Y)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    for name, others in edges.items():
        x, y = places[name][0] + WIDTH / 2, places[name][1] + HEIGHT
        for other in sorted(others):
            to_x, to_y = places[other][0] + WIDTH / 2, places[other][1]
            middle = (y + to_y) / 2
            lines.append(
                f'<path d="M{x:g},{y:g} C{x:g},{middle:g} {to_x:g},{middle:g} {to_x:g},{to_y:g}" '
                f'fill="none" stroke="#7b8794" opacity="0.6">'
                f"<title>{name} imports {other}</title></path>"
            )
    for name, (x, y) in places.items():
        lines += [
            f'<rect x="{x:g}" y="{y:g}" width="{WIDTH}" height="{HEIGHT}" rx="6" '
            'fill="#e8f1fb" stroke="#2b6cb0"/>',
            f'<text x="{x + WIDTH / 2:g}" y="{y + 22:g}" text-anchor="middle" font-size="14">'
            f"{name}</text>",
        ]
    return "\n".join([*lines, "</svg>\n"])


def main() -> None:
    """Run the command line."""
    folders = sys.argv[1:] or [""]
    for folder in folders:
        target = IMAGES / f"imports{'_' if folder else ''}{folder.replace('/', '_')}.svg"
        target.write_text(picture(ROOT / "keras_quasiattn" / folder), encoding="utf-8")
        print(target.relative_to(ROOT))


if __name__ == "__main__":
    main()
