"""Rules about the source itself."""

import ast
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import keras_quasiattn

ROOT = Path(__file__).resolve().parents[1]
SOURCES = sorted((ROOT / "keras_quasiattn").rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
BACKENDS = {"tensorflow", "jax", "torch"}
PUBLIC = [
    pytest.param(getattr(getattr(keras_quasiattn, room), name), id=f"{room}.{name}")
    for room in ("ops", "layers")
    for name in getattr(keras_quasiattn, room).__all__
]
every_source = pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))


def imports(path, top_level_only=False):
    tree = ast.parse(path.read_text())
    for node in tree.body if top_level_only else ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module


@pytest.mark.parametrize("path", [*SOURCES, *TESTS], ids=lambda path: str(path.relative_to(ROOT)))
def test_no_private_keras(path):
    assert not [name for name in imports(path) if (name or "").startswith("keras.src")]


@every_source
def test_what_reports_are_drawn_with_is_imported_when_something_is_drawn(path):
    assert not {name.split(".")[0] for name in imports(path) if name} & {"jinja2", "matplotlib", "playwright"}


@every_source
def test_files_are_small(path):
    assert len(path.read_text().splitlines()) <= 350


@pytest.mark.parametrize("path", TESTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_test_files_are_small(path):
    assert len(path.read_text().splitlines()) <= 350


@every_source
def test_ops_and_layers_name_no_backend(path):
    if path.parent.name not in ("ops", "layers"):
        return
    own = path.stem.rsplit("_", 1)[-1]
    named = {name.split(".")[0] for name in imports(path)} & BACKENDS
    assert named <= {own}, "only a file named after a backend may import it"


@every_source
def test_ops_and_layers_draw_from_seed_generators_only(path):
    if path.parent.name in ("ops", "layers"):
        drawn = re.findall(r"\b(?:keras\.|np\.|numpy\.)?random\.(?!SeedGenerator)\w+", code_of(path))
        assert not drawn


def code_of(path):
    """The source without docstrings and other bare strings."""
    lines = path.read_text().splitlines()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            lines[node.lineno - 1 : node.end_lineno] = [""] * (node.end_lineno - node.lineno + 1)
    return "\n".join(lines)


def test_importing_the_package_imports_little():
    code = (
        "import sys, keras; before = set(sys.modules); import keras_quasiattn; "
        "print(*{name.split('.')[0] for name in set(sys.modules) - before})"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, timeout=120, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    assert not set(run.stdout.split()) & {"tensorflow_text", "tensorflow_datasets", "click", "tensorflow"}
    assert "keras_quasiattn" in run.stdout


@pytest.mark.parametrize("symbol", PUBLIC)
def test_public_symbols_are_documented_and_typed(symbol):
    methods = (
        [symbol]
        if inspect.isfunction(symbol)
        else [m for m in vars(symbol).values() if inspect.isfunction(m)]
    )
    assert inspect.getdoc(symbol)
    for section in ("Args:", "Returns:", "Example:"):
        assert section in symbol.__doc__, section
    for method in methods:
        assert method.__name__ == "__init__" or method.__name__.startswith("_") or method.__doc__, method
        signature = inspect.signature(method)
        assert signature.return_annotation is not inspect.Signature.empty, method
        for parameter in signature.parameters.values():
            assert parameter.name == "self" or parameter.annotation is not inspect.Parameter.empty, parameter


@pytest.mark.parametrize("symbol", PUBLIC)
def test_public_functions_document_every_argument(symbol):
    if inspect.isfunction(symbol):
        arguments = list(inspect.signature(symbol).parameters)
    else:
        arguments = [
            p for p in inspect.signature(symbol.__init__).parameters if p not in ("self", "args", "kwargs")
        ]
    for argument in arguments:
        assert re.search(rf"^\s+{argument}: ", symbol.__doc__, re.MULTILINE), argument


@pytest.mark.parametrize("symbol", PUBLIC)
def test_public_symbols_are_tested(symbol):
    tests = "\n".join(path.read_text() for path in TESTS)
    assert re.search(rf"\b{symbol.__name__}\b", tests)
