"""Write the imports of `ops.py` and `layers/__init__.py` from the files of `attention`.

python docs/tooling/exports.py adds the multi-head layer and the functions named `*_attention` of
every file to the public names, so that a new attention needs no line there.
"""

import ast
import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "keras_quasiattn"


def public_of(path: Path) -> tuple[list[str], list[str]]:
    """Return the functions and the layers that a file of `attention` makes public."""
    body = ast.parse(path.read_text(encoding="utf-8")).body
    functions = [
        node.name
        for node in body
        if isinstance(node, ast.FunctionDef)
        and node.name.endswith("_attention")
        and not node.name.startswith("_")
    ]
    layers = [
        node.name
        for node in body
        if isinstance(node, ast.ClassDef)
        and any("register_attention" in ast.unparse(one) for one in node.decorator_list)
    ]
    return (functions, layers) if layers else ([], [])


def written(path: Path, names: dict[str, list[str]]) -> str:
    """Return the text of a file that also imports and lists `names`, by module."""
    text = path.read_text(encoding="utf-8")
    head, _, listed = text.partition("__all__ = ")
    every = set(ast.literal_eval(listed))
    for module, own in names.items():
        new = [name for name in own if name not in every]
        if new:
            head += f"from keras_quasiattn.{module} import {', '.join(new)}\n"
            every |= set(new)
    return f"{head}__all__ = {sorted(every)!r}\n"


def main() -> None:
    """Write both files, sorted and formatted."""
    functions, layers = {}, {}
    for path in sorted((PACKAGE / "attention").rglob("*.py")):
        module = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        functions[module], layers[module] = public_of(path)
    for path, names in (
        (PACKAGE / "ops.py", functions),
        (PACKAGE / "layers" / "__init__.py", layers),
    ):
        path.write_text(written(path, names), encoding="utf-8")
        for command in (["check", "--select", "I", "--fix", "-q"], ["format", "-q"]):
            subprocess.run([sys.executable, "-m", "ruff", *command, path], check=True)


if __name__ == "__main__":
    main()
